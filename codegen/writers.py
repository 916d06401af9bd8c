"""Writes one straight-line writer per struct and version."""

from __future__ import annotations

from codegen.model import FIXED, Field, MessageSpec, Struct
from codegen.readers import Names
from codegen.source import Constants, Source


class WriterWriter:
    """Writes the writer of one struct at one version. Parts go to ``put`` in wire order; blobs are put as they are."""

    def __init__(self, spec: MessageSpec, struct: Struct, version: int, names: Names, constants: Constants) -> None:
        self._spec = spec
        self._struct = struct
        self._version = version
        self._flexible = version in spec.flexible
        self._names = names
        self._constants = constants
        self._out = Source(1)
        self._group: list[tuple[str, str]] = []
        self._put = "put"

    def body(self) -> list[str]:
        for field in self._struct.present(self._version):
            self._field(field)
        if self._flexible:
            self._tags(self._struct.tagged(self._version))
        self._flush()
        return self._out.lines or ["    return None"]

    def _field(self, field: Field) -> None:
        if field.is_array:
            self._array(field)
        elif field.type in FIXED:
            self._group.append((FIXED[field.type], f"m.{field.name}"))
        elif field.is_struct:
            self._flush()
            self._out.add(f"{self._names[field.type, self._version]}(m.{field.name}, {self._put})")
        else:
            self._blob(field)

    def _length(self, n: str, code: str) -> None:
        """Puts a length held in local ``n`` (-1 for null)."""
        if not self._flexible:
            self._group.append((code, n))
            self._flush()
            return
        self._flush()
        self._out.add(f"{self._put}(UVARINTS[{n} + 1] if {n} < 127 else write_uvarint({n} + 1))")

    def _blob(self, field: Field) -> None:
        out = self._out
        raw, n = out.fresh("raw"), out.fresh("n")
        value = f"m.{field.name}.encode()" if field.type == "string" else f"m.{field.name}"
        kind = "Blob" if field.type == "records" else "bytes"
        if self._version in field.nullable:
            out.add(f'{raw}: {kind} = b"" if m.{field.name} is None else {value}')
            out.add(f"{n} = -1 if m.{field.name} is None else len({raw})")
        else:
            self._not_null(field)
            out.add(f"{raw}: {kind} = {value}", f"{n} = len({raw})")
        self._length(n, "h" if field.type == "string" else "i")
        out.add(f"{self._put}({raw})")

    def _not_null(self, field: Field) -> None:
        if field.python_type.endswith("None"):
            with self._out.block(f"if m.{field.name} is None:"):
                self._out.add(f'raise TypeError("{self._struct.name}.{field.name} may not be null in version {self._version}")')

    def _array(self, field: Field) -> None:
        out = self._out
        items, n = out.fresh("items"), out.fresh("n")
        kind = {"string": "str", "uuid": "bytes"}.get(field.type, field.type if field.is_struct else "int")
        if self._version in field.nullable:
            out.add(f"{items}: Sequence[{kind}] = m.{field.name} or ()")
            out.add(f"{n} = -1 if m.{field.name} is None else len({items})")
        else:
            self._not_null(field)
            out.add(f"{items}: Sequence[{kind}] = m.{field.name}", f"{n} = len({items})")
        self._length(n, "i")
        if field.type in FIXED and field.type != "uuid":
            out.add(f'{self._put}(pack(f">{{{n}}}{FIXED[field.type]}", *{items}))')
            return
        with out.block(f"for item in {items}:"):
            if field.is_struct:
                out.add(f"{self._names[field.type, self._version]}(item, {self._put})")
            elif field.type == "uuid":
                out.add(f'{self._put}(pack("16s", item))')
            else:
                out.add("raw = item.encode()")
                length = "write_uvarint(len(raw) + 1)" if self._flexible else 'pack(">h", len(raw))'
                out.add(f"{self._put}({length})")
                out.add(f"{self._put}(raw)")

    def _tags(self, known: list[Field]) -> None:
        if not known:
            self._group.append(("x", ""))
            return
        self._flush()
        self._out.add("tags: list[tuple[int, bytes]] = []")
        for field in known:
            self._tag(field)
        self._out.add("write_tags(tags, put)")

    def _tag(self, field: Field) -> None:
        value, default = f"m.{field.name}", field.default
        test = f"{value} is not None" if default == "None" else value if default in ("()", "False") else f"{value} != {default}"
        if field.is_struct and not field.is_array:
            test += f" and {value} != {field.type}()"
        with self._out.block(f"if {test}:"):
            parts = self._out.fresh("parts")
            self._out.add(f"{parts}: list[Blob] = []")
            self._put = f"{parts}.append"
            self._field(field)
            self._flush()
            self._put = "put"
            self._out.add(f'tags.append(({field.tag}, b"".join({parts})))')

    def _flush(self) -> None:
        group, self._group = self._group, []
        if not group:
            return
        codes = [code for code, _ in group]
        if codes == ["x"]:
            self._out.add(f'{self._put}(b"\\0")')
            return
        values = ", ".join(value for _, value in group if value)
        self._out.add(f"{self._put}({self._constants.name('write', codes)}({values}))")
