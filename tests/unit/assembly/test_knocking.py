"""What can never commit is refused at the start, by the setting's name; what is only away is waited for."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble
from tests.unit.catalogs.restrig import PROPERTIES, RULES, opened, with_double

from frazil.assembly.knocking import check_default_catalog
from frazil.assembly.settings import CatalogSettings, FrazilSettings
from frazil.kit.errors import Refused


def settings(uri: str, **more: object) -> FrazilSettings:
    return FrazilSettings(catalog=CatalogSettings(uri=uri, **more))  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("rules", "credential", "words"),
    [
        (RULES, "an-id:another-secret", r"credential.*see catalog\.credential"),
        (RULES, "", r"catalog\.credential or catalog\.token, which are not set"),
        (replace(RULES, read_only=True), PROPERTIES["credential"], r"read-only for Iceberg clients.*catalog\.uri"),
    ],
)
def test_f01_a_catalog_that_takes_no_commit_is_refused_at_the_start(
    tmp_path: pathlib.Path, rules: DoubleRules, credential: str, words: str
) -> None:
    async def work(double: RestCatalogDouble) -> None:
        given = {"credential": credential, "scope": "all-apis"} if credential else {}
        async with opened(double, given) as catalog:
            with pytest.raises(Refused, match=words) as raised:
                await check_default_catalog(settings(double.uri, credential=credential), catalog)
            assert "another-secret" not in str(raised.value)

    with_double(tmp_path, work, rules)


def test_one_that_is_well_or_away_is_no_reason(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with opened(double) as catalog:
            await check_default_catalog(settings(double.uri, credential=PROPERTIES["credential"]), catalog)
        nobody: Any = SimpleNamespace(uri="http://127.0.0.1:1")
        async with opened(nobody, seed=4) as catalog:
            await check_default_catalog(settings(nobody.uri, credential=PROPERTIES["credential"]), catalog)

    with_double(tmp_path, work)
