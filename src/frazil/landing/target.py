"""The table of one landing in its catalog: found, created, recognised again, and how it wants its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from frazil.catalogs.files import DataFile
from frazil.catalogs.port import CreateTable, LoadedTable
from frazil.catalogs.schema import arrow_schema
from frazil.kit.errors import Conflict, Refused, RetryLater
from frazil.landing.changes import Changes
from frazil.landing.convert import Shape, full_schema, value_columns
from frazil.landing.evolution import decode_options, renamed
from frazil.landing.identity import NamedTable
from frazil.landing.lake import Lake, within
from frazil.landing.layout import advice, laid_out_table, parse_layout, plan_step, waiting_for
from frazil.landing.options import KEYS
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.upsert import parse_envelope, parse_upsert
from frazil.metadata.landings import LandingSpec
from frazil.schemas import DecodeOptions, decoder_for, evolve, parse_columns
from frazil.schemas.framing import FramedDecoder, ids_of


class Target:
    """One spec's table. Knows its uuid, so that another table of the same name is never taken for it (F58)."""

    def __init__(
        self, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """``marks``: see ``NamedTable``."""
        self.spec = spec
        self._lake = lake
        self._layout = parse_layout(spec.options)
        self._deps = deps
        self._deadline_ms = settings.call_deadline_ms
        self._named = NamedTable(spec.table, spec, lake, deps, settings, marks=marks or {})
        options = decode_options(spec, use_kernel=settings.use_kernel)
        self.renames = options.policy.renames
        declared = parse_columns(spec.columns, reserved=options.reserved) if spec.columns else None
        self._declared = None if declared is None else declared.names
        self._decoder = decoder_for(spec.value, declared, options)
        kind = spec.options.get("key", KEYS[0])
        envelope, upsert = parse_envelope(spec), parse_upsert(spec)
        self.changes = (
            Changes(table=spec.table, envelope=envelope, upsert=upsert, value=spec.value, declared=bool(spec.columns))
            if envelope or upsert
            else None
        )
        self._key = None if kind == KEYS[0] else decoder_for(kind, None, DecodeOptions())
        self._framed = self._decoder if isinstance(self._decoder, FramedDecoder) else None
        if self._framed is not None and deps.registry is None:
            raise Refused(f"landing {spec.table}: {spec.value} values name schemas of a registry; set registry.url for the landing process")

    @property
    def asks_registry(self) -> bool:
        """Whether values name a schema, so that ``learn`` has work."""
        return self._framed is not None

    async def learn(self, records: pa.RecordBatch) -> None:
        """Gets the schemas that the values of a slice name. Raises RetryLater while the registry is away: no record is bad for that."""
        framed, registry = self._framed, self._deps.registry
        if framed is None or registry is None:
            return
        values: Any = records.column("value")
        ids = await self._deps.offload.run(lambda: ids_of(values))
        found = await within(registry.find(ids), self._deadline_ms, "asking the schema registry")
        await self._deps.offload.run(lambda: framed.learn(found))

    async def load(self) -> LoadedTable | None:
        """The table as it is now, None when it was never there. Raises Refused when it was dropped or exchanged."""
        return await self._named.load()

    async def create_declared(self) -> LoadedTable | None:
        """Makes the table when its columns are known before any record is."""
        known = self._decoder.schema
        return None if known is None or not len(known) else await self.create(known)

    async def create(self, values: pa.Schema) -> LoadedTable:
        """Makes the table, or takes the one somebody made meanwhile."""
        operation = self.changes is not None and self.changes.upsert is None
        schema = full_schema(values, metadata_columns=self.spec.metadata_columns, key=self._key, operation=operation)
        properties = {"frazil.source": self._deps.source, "frazil.topics": ",".join(self.spec.topics)}
        return await self._named.create(laid_out_table(self._layout, CreateTable(schema=schema, properties=properties)))

    async def lay_out(self, table: LoadedTable) -> LoadedTable:
        """The table with the layout of the landing's options, which is committed when it is new. Raises Refused, RetryLater."""
        step = plan_step(self._layout, table)
        if step is None:
            return table
        commit = self._lake.catalog.commit(table.ident, table, step.requirements, step.updates)
        try:
            return await within(commit, self._deadline_ms, "changing the layout of the table")
        except Conflict as error:
            raise RetryLater(f"the table was changed while its layout was: {error}") from error

    def advice(self, table: LoadedTable, files: Sequence[DataFile]) -> str:
        """What the status should say about the table's layout and the files of a slice; empty: nothing."""
        waiting = waiting_for(self._layout, table)
        if waiting:
            return f"the layout of the options waits for the column {', '.join(waiting)}; rows land in the one before"
        return advice(len(files), sum(file.record_count for file in files))

    def shape(self, table: LoadedTable | None) -> Shape:
        """How values are decoded for the table as it is. Raises Refused when declared columns are not in it."""
        with_metadata = self.spec.metadata_columns
        plain = Shape(decoder=self._decoder, columns=None, metadata_columns=with_metadata, key=self._key, changes=self.changes)
        if table is None:
            return plain
        only = self._declared if self._declared is not None else self._fixed_names()
        have = renamed(arrow_schema(table), self.renames)
        columns = value_columns(have, metadata_columns=with_metadata, only=only, operation=plain.with_operation)
        if only is not None:
            known = {name.lower() for name in columns.names}
            missing = [name for name in only if name.lower() not in known]
            if missing:
                raise Refused(
                    f"table {self.spec.table} has no column {', '.join(missing)}: add it, or leave it out of the landing's columns"
                )
            self._check_types(columns)
        return replace(plain, columns=columns)

    def _check_types(self, columns: pa.Schema) -> None:
        """Raises Refused when the table has a declared column in a type that the declared one cannot grow into, or that into it: values
        would land as something nobody asked for, or all of them as dead letters. Happens when a topic had landed by itself before.
        """
        declared = self._decoder.schema
        if declared is None:
            return
        names = {name.lower(): name for name in columns.names}
        try:
            known = [field.with_name(names[field.name.lower()]) for field in declared if field.name.lower() in names]
            evolve(pa.schema(known), columns)
        except Refused as error:
            raise Refused(f"table {self.spec.table} has other types than the landing's columns: {error}") from error

    def _fixed_names(self) -> list[str] | None:
        """The columns of a decoder that has its own (raw); None when they are inferred."""
        known = self._decoder.schema
        return None if known is None or not len(known) else known.names
