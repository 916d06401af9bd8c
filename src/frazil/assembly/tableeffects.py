"""What a schema would do to tables, before it is registered: joined from landings, their tables as they are, and the decoders."""

from __future__ import annotations

from frazil.assembly.namedcatalogs import CatalogBook
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stores import Stores
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.schema import arrow_schema
from frazil.kit.errors import FrazilError, Missing, Refused
from frazil.landing.convert import value_columns
from frazil.landing.evolution import decode_options
from frazil.metadata.landings import LandingSpec, list_landings
from frazil.schemas import decoder_for, parse_columns
from frazil.schemas.effects import effects_of
from frazil.schemas.framing import FramedDecoder, WriterSchema

_SUFFIX = "-value"


class LandedEffects:
    """``endpoints.registry.TableEffects``. A subject belongs to the topic whose name stands before ``-value``."""

    def __init__(self, settings: FrazilSettings, stores: Stores) -> None:
        self._stores = stores
        self._book = CatalogBook(settings, stores.catalog_deps, stores.catalog)

    async def close(self) -> None:
        """Ends the connections to catalogs."""
        await self._book.close()

    async def effects(self, subject: str, schema: WriterSchema) -> tuple[str, ...]:
        """See ``TableEffects.effects``."""
        topic = subject.removesuffix(_SUFFIX)
        if topic == subject:
            return ()
        specs = [spec for spec in await list_landings(self._stores.metadata) if topic in spec.topics]
        return tuple([f"{spec.table}: {what}" for spec in specs for what in await self._effect(spec, schema)])

    async def _effect(self, spec: LandingSpec, schema: WriterSchema) -> tuple[str, ...]:
        try:
            decoder = _decoder(spec)
            table = await self._load(spec)
        except FrazilError as error:
            return (f"cannot be told: {error}",)
        if not isinstance(decoder, FramedDecoder):
            return (f"takes values as {spec.value}, without a schema",)
        if table is None:
            return effects_of(decoder, schema, None)
        declared = parse_columns(spec.columns).names if spec.columns else None
        columns = value_columns(arrow_schema(table), metadata_columns=spec.metadata_columns, only=declared)
        return effects_of(decoder, schema, columns)

    async def _load(self, spec: LandingSpec) -> LoadedTable | None:
        """The table as it is; None when it is not there yet."""
        await self._book.refresh(self._stores.metadata)
        name = spec.options.get("catalog", "default")
        catalog = self._book.catalogs.get(name)
        if catalog is None:
            raise Refused(f"there is no catalog {name!r}")
        try:
            return await catalog.load(spec.table)
        except Missing:
            return None


def _decoder(spec: LandingSpec) -> object:
    options = decode_options(spec, use_kernel=False)
    declared = parse_columns(spec.columns, reserved=options.reserved) if spec.columns else None
    return decoder_for(spec.value, declared, options)
