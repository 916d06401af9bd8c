"""Rows → Parquet files in the object store, described as data files of the table: partitioned, sorted and cut as the table wants them.

Own writer rather than the library's, because the metrics must be complete and never wrong, and because memory must stay bounded whatever
the number of partitions (F73): rows are grouped in one pass, then a few lanes each take some megabytes of them, encode and store them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.conform import conform
from frazil.catalogs.files import DataFile
from frazil.catalogs.grouping import Group, group_rows
from frazil.catalogs.layout import UNSORTED_ID, order_to_write, spec_to_write
from frazil.catalogs.locations import Locations
from frazil.catalogs.metadata_json import check_writable, current_schema
from frazil.catalogs.metrics import describe
from frazil.catalogs.parquet import Encoded, Recipe, encode, encode_files, plan_recipe
from frazil.catalogs.port import CatalogDeps, JsonObject, LoadedTable
from frazil.catalogs.schema import SchemaChange, to_arrow
from frazil.catalogs.writeoptions import DELTA_PROPERTY, metrics_lengths, write_options
from frazil.kit.chance import UlidSource
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.tasks import spawn

__all__ = ["DELTA_PROPERTY", "FileWriter", "describe", "encode"]
LANES: Final = 2
"""Parts of a slice that are encoded and stored at once."""
PUTS_MAX: Final = 16
"""Files of one writer on their way to the store."""
SPAN_BYTES: Final = 8 * 1024 * 1024
"""Arrow memory of the rows that a lane takes; a single partition that is larger is taken whole."""
SPAN_FILES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is known of all files before the first is encoded."""

    rows: pa.Table
    order: ArrowArray | None
    spans: Sequence[Sequence[Group]]
    recipe: Recipe
    schema: JsonObject
    lengths: Mapping[int, int]
    spec_id: int
    sort_order_id: int | None


class FileWriter:
    """Writes data files. Encoding runs in the offload; one instance may serve many tables."""

    def __init__(self, deps: CatalogDeps, *, put_deadline_ms: int = 60_000) -> None:
        self._deps = deps
        self._locations = Locations(deps.objects)
        self._names = UlidSource(deps.chance)
        self._put_deadline_ms = put_deadline_ms

    async def write(
        self, table: LoadedTable, rows: pa.Table, *, change: SchemaChange | None = None, spec_id: int | None = None
    ) -> tuple[DataFile, ...]:
        """Stores ``rows`` under names never used before. With ``change`` they have the schema after it.

        One file per partition, or several where the target size is passed; under the partition spec ``spec_id``, or the table's own. Paths
        say nothing about partitions. Raises Refused when the rows do not fit the schema or are none; RetryLater or OutcomeUnknown of the
        store pass through, and writing again is safe: an object left behind is nobody's.
        """
        if rows.num_rows == 0:
            raise Refused("a data file needs rows")
        check_writable(table)
        schema = change.schema if change else current_schema(table.metadata)
        plan = await self._deps.offload.run(lambda: _planned(table, rows, schema, spec_to_write(table, spec_id)))
        written: list[tuple[DataFile, ...]] = [()] * len(plan.spans)
        waiting = iter(range(len(plan.spans)))
        if len(plan.spans) == 1:
            await self._lane(table, plan, waiting, written)
        else:
            await _together(f"write {table.ident}", [self._lane(table, plan, waiting, written) for _ in range(LANES)])
        return tuple(file for files in written for file in files)

    async def _lane(self, table: LoadedTable, plan: _Plan, waiting: Iterator[int], written: list[tuple[DataFile, ...]]) -> None:
        """Takes one span after the other, until none is left."""
        for at in waiting:
            encoded = await self._deps.offload.run(partial(_encode_span, plan, plan.spans[at]))
            files: list[DataFile] = []
            for start in range(0, len(encoded), PUTS_MAX // LANES):
                some = encoded[start : start + PUTS_MAX // LANES]
                locations = [f"{table.data_location}/{self._names.next(self._deps.clock.now_ms())}.parquet" for _ in some]
                puts = [self._put(location, file.data) for location, (_, file) in zip(locations, some, strict=True)]
                await (_together(f"store files of {table.ident}", puts) if len(puts) > 1 else puts[0])
                files += [_described(plan, location, group, file) for location, (group, file) in zip(locations, some, strict=True)]
            written[at] = tuple(files)

    async def _put(self, location: str, data: memoryview) -> None:
        key = self._locations.key_of(location)
        try:
            async with asyncio.timeout(self._put_deadline_ms / 1000):
                await self._deps.objects.put_if_absent(key, data)
        except TimeoutError:
            raise RetryLater(f"storing a data file takes longer than {self._put_deadline_ms} ms") from None


async def _together(name: str, works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """All of them at once; when one fails the others end before its exception is raised."""
    tasks = [spawn(name, work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _planned(table: LoadedTable, rows: pa.Table, schema: JsonObject, spec: JsonObject) -> _Plan:
    shaped = conform(rows, to_arrow(schema))
    properties: Mapping[str, Any] = table.metadata.get("properties", {})
    order = order_to_write(table)
    grouping = group_rows(shaped, schema, spec, order)
    recipe = plan_recipe(shaped, schema, write_options(properties), files=len(grouping.groups))
    if grouping.order is not None:
        shaped = shaped.combine_chunks()  # rows are taken from all over, many times
    named = {int(field["source-id"]) for field in (*spec["fields"], *order["fields"])}
    return _Plan(
        rows=shaped,
        order=grouping.order,
        spans=_spans(grouping.groups, max(1, SPAN_BYTES // recipe.row_bytes)),
        recipe=recipe,
        schema=schema,
        lengths=metrics_lengths(schema, properties, first=named, files=len(grouping.groups)),
        spec_id=int(spec["spec-id"]),
        sort_order_id=None if order["order-id"] == UNSORTED_ID else int(order["order-id"]),
    )


def _spans(groups: Sequence[Group], rows_max: int) -> list[list[Group]]:
    """Groups that are taken together."""
    spans: list[list[Group]] = []
    rows = 0
    for group in groups:
        if not spans or len(spans[-1]) >= SPAN_FILES or rows + group.rows > rows_max:
            spans.append([])
            rows = 0
        spans[-1].append(group)
        rows += group.rows
    return spans


def _encode_span(plan: _Plan, span: Sequence[Group]) -> list[tuple[Group, Encoded]]:
    start, count = span[0].start, sum(group.rows for group in span)
    if plan.order is not None:
        rows = plan.rows.take(plan.order.slice(start, count))
    else:
        rows = plan.rows if count == plan.rows.num_rows else plan.rows.slice(start, count)
    if len(span) == 1:
        return [(span[0], encoded) for encoded in encode_files(rows, plan.recipe)]
    return [(group, file) for group in span for file in encode_files(rows.slice(group.start - start, group.rows), plan.recipe)]


def _described(plan: _Plan, location: str, group: Group, encoded: Encoded) -> DataFile:
    file = describe(encoded, plan.schema, location=location, spec_id=plan.spec_id, lengths=plan.lengths)
    if not group.partition and plan.sort_order_id is None:
        return file
    return replace(file, partition=group.partition, sort_order_id=plan.sort_order_id)
