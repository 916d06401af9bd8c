"""A landing that can never commit is not started: the default catalog is asked once, and its refusal names the setting (F01)."""

from __future__ import annotations

import asyncio
import logging

from frazil.assembly.catalogs import catalog_address, kind_of
from frazil.assembly.settings import FrazilSettings
from frazil.catalogs.opening import WITH_PROPERTIES
from frazil.catalogs.port import Catalog
from frazil.kit.errors import Missing, Refused, RetryLater
from frazil.kit.settings import without_user

_LOG = logging.getLogger("frazil.land")


async def check_default_catalog(settings: FrazilSettings, catalog: Catalog) -> None:
    """Raises Refused when the catalog does not let us in or takes no commits. One that is away is no reason: landing waits for it.

    Catalogs of single tables are asked when their tables are: a bad one is those tables' trouble and stops nothing else.
    """
    address = catalog_address(settings)
    if kind_of(address) not in WITH_PROPERTIES:
        return
    try:
        async with asyncio.timeout(settings.catalog.timeout_ms / 1000):
            unfit = await catalog.unfit()
            await catalog.list(settings.landing.namespace)
    except Refused as error:
        raise Refused(f"landing cannot commit to {without_user(address)}: {error}; see {_key(settings)}") from error
    except (RetryLater, Missing, TimeoutError) as error:
        _LOG.warning("the catalog does not answer yet, landing waits for it: %s", error)
        return
    if unfit:
        raise Refused(f"landing cannot commit to {without_user(address)}: {unfit}; see catalog.uri")


def _key(settings: FrazilSettings) -> str:
    """The setting by which we sign in."""
    given = settings.catalog
    names = [name for name in ("credential", "token", "sigv4") if getattr(given, name)]
    return f"catalog.{names[0]}" if names else "catalog.credential or catalog.token, which are not set"
