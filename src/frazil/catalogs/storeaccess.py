"""How tables' files are reached where the catalog decides about locations: Iceberg's ``s3.*`` options → an open object store."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.catalogs.port import CatalogDeps
from frazil.catalogs.rest.properties import flag
from frazil.catalogs.tablestore import OpenStore
from frazil.objects import open_objects
from frazil.objects.access import CloudAccess
from frazil.objects.port import ObjectStore


def store_opener(deps: CatalogDeps) -> OpenStore:
    """Opens stores of tables' files; P2 is reached in the middle of a data file."""

    def mid_put(key: str) -> None:
        if key.endswith(".parquet"):
            deps.faults.reach("P2")

    def open_store(url: str, options: Mapping[str, str]) -> ObjectStore:
        access = cloud_access(options)
        return open_objects(url, offload=deps.offload, clock=deps.clock, chance=deps.chance, access=access, mid_put=mid_put)

    return open_store


def cloud_access(options: Mapping[str, str]) -> CloudAccess:
    """Iceberg's ``s3.*`` options as the object store wants them. Names of files are never used twice, so the store's care about
    overwriting is not asked for: it would write where vended keys may not.
    """
    endpoint = options.get("s3.endpoint", "")
    return CloudAccess(
        endpoint=endpoint,
        region=options.get("s3.region") or options.get("client.region", ""),
        access_key_id=options.get("s3.access-key-id") or options.get("client.access-key-id", ""),
        secret_access_key=options.get("s3.secret-access-key") or options.get("client.secret-access-key", ""),
        session_token=options.get("s3.session-token") or options.get("client.session-token", ""),
        path_style=flag(options, "s3.path-style-access", default=True),
        allow_http=endpoint.startswith("http://"),
        ca_file=options.get("s3.cabundle", ""),
        check_conditions=False,
    )
