"""What values of a schema would do to the columns of a table, in words for a person. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.ddl import describe
from frazil.schemas.evolve import evolve
from frazil.schemas.framing import FramedDecoder, WriterSchema
from frazil.schemas.unfit import Unfit

_ID: Final = 1
_NO_COLUMNS: Final = pa.schema([])


def effects_of(decoder: FramedDecoder, schema: WriterSchema, columns: pa.Schema | None) -> tuple[str, ...]:
    """Sentences without the table's name. ``columns``: the table's value columns now; None: there is no table yet."""
    decoder.learn({_ID: schema})
    before = columns if columns is not None else decoder.schema or _NO_COLUMNS
    try:
        after = decoder.preview(_ID, before)
        clashes = _clashes(decoder.preview(_ID, _NO_COLUMNS), after)
    except (Unfit, Refused) as verdict:
        why = verdict.why if isinstance(verdict, Unfit) else str(verdict)
        return (f"records would be dead letters: {why}",)
    changes = (*_changes(before, after), *clashes)
    return changes or (("no change",) if columns is not None else ("the table would be made",))


def _clashes(wanted: pa.Schema, after: pa.Schema) -> list[str]:
    """Columns that hold something else than the values are, where no column beside them takes these."""
    have = {field.name.lower(): field for field in after}
    found = []
    for field in wanted:
        column = have.get(field.name.lower())
        if column is None or any(name.startswith(f"{field.name.lower()}__") for name in have):
            continue
        try:
            evolve(pa.schema([column]), pa.schema([field.with_name(column.name)]))
        except Refused:
            (was,), (now,) = describe(pa.schema([column])), describe(pa.schema([field.with_name(column.name)]))
            found.append(f"records with {now} would be dead letters: the column is {was}")
    return found


def _changes(before: pa.Schema, after: pa.Schema) -> tuple[str, ...]:
    """New and changed columns, as ``frazil table describe`` writes types."""
    old = dict(line.split(" ", 1) for line in describe(before))
    found = []
    for line in describe(after):
        name, kind = line.split(" ", 1)
        if name not in old:
            found.append(f"column {name} {kind} would be added")
        elif old[name] != kind:
            found.append(f"column {name} would become {kind}, is {old[name]}")
    return tuple(found)
