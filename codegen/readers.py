"""Writes one straight-line reader per struct and version."""

from __future__ import annotations

from codegen.model import FIXED, SIZES, Field, MessageSpec, Struct, bytes_min
from codegen.source import Constants, Source

Names = dict[tuple[str, int], str]


class ReaderWriter:
    """Writes the reader of one struct at one version. Adjacent fixed fields and the length after them share one struct call."""

    def __init__(self, spec: MessageSpec, struct: Struct, version: int, names: Names, constants: Constants) -> None:
        self._spec = spec
        self._struct = struct
        self._version = version
        self._flexible = version in spec.flexible
        self._names = names
        self._constants = constants
        self._out = Source(1)
        self._group: list[tuple[str, str, str]] = []

    def body(self) -> list[str]:
        out = self._out
        out.add('at = ""')
        with out.block("try:"):
            out.add(f"m = _new({self._struct.name})")
            for field in self._struct.unread(self._version):
                out.add(f"m.{field.name} = {field.default}")
            for field in self._struct.present(self._version):
                self._field(field)
            if self._flexible:
                self._tags(self._struct.tagged(self._version))
            self._flush()
            out.add("return m, pos")
        with out.block("except FAULTS as fault:"):
            out.add(f'raise corrupt("{self._struct.name}", at, pos, fault) from None')
        return out.lines

    def _field(self, field: Field) -> None:
        if field.is_array:
            self._array(field)
        elif field.type in FIXED:
            self._group.append((FIXED[field.type], f"m.{field.name}", field.name))
        elif field.is_struct:
            self._flush()
            self._out.add(f"m.{field.name}, pos = {self._names[field.type, self._version]}(buf, pos, limit)")
        else:
            self._blob(field)

    def _length(self, field: Field, code: str) -> str:
        """Reads a length or count into a local, -1 for null; compact forms hold it plus one."""
        n = self._out.fresh("n")
        alone = not self._group
        self._group.append(("B" if self._flexible else code, n, field.name))
        self._flush()
        if not alone:
            self._out.add(f'at = "{field.name}"')
        if self._flexible:
            with self._out.block(f"if {n} > 127:"):
                self._out.add(f"{n}, pos = read_uvarint(buf, pos - 1)")
            self._out.add(f"{n} -= 1")
        return n

    def _blob(self, field: Field) -> None:
        out = self._out
        n = self._length(field, "h" if field.type == "string" else "i")
        if self._version in field.nullable:
            with out.block(f"if {n} == -1:"):
                out.add(f"m.{field.name} = None")
            with out.block("else:"):
                self._blob_content(field, n)
        else:
            self._blob_content(field, n)

    def _blob_content(self, field: Field, n: str) -> None:
        out = self._out
        out.add(f"end = pos + {n}")
        with out.block(f"if {n} < 0 or end > limit:"):
            out.add(f"raise bad_length({n}, limit - pos)")
        cut = "buf[pos:end]"
        value = {"string": f"{cut}.tobytes().decode()", "bytes": f"{cut}.tobytes()", "records": cut}[field.type]
        out.add(f"m.{field.name} = {value}", "pos = end")

    def _array(self, field: Field) -> None:
        out = self._out
        n = self._length(field, "i")
        if self._version in field.nullable:
            with out.block(f"if {n} == -1:"):
                out.add(f"m.{field.name} = None")
            with out.block("else:"):
                self._array_content(field, n)
        else:
            self._array_content(field, n)

    def _array_content(self, field: Field, n: str) -> None:
        out = self._out
        smallest = bytes_min(self._spec, field, self._version)
        times = f" * {smallest}" if smallest > 1 else ""
        with out.block(f"if {n} < 0 or {n}{times} > limit - pos:"):
            out.add(f"raise bad_length({n}, limit - pos)")
        if field.type in FIXED and field.type != "uuid":
            out.add(f'm.{field.name} = list(unpack_from(f">{{{n}}}{FIXED[field.type]}", buf, pos))', f"pos += {n}{times}")
            return
        items = out.fresh("items")
        out.add(f"{items}: list[{'str' if field.type == 'string' else 'bytes' if field.type == 'uuid' else field.type}] = []")
        with out.block(f"for _ in range({n}):"):
            self._element(field)
            out.add(f"{items}.append(item)")
        out.add(f"m.{field.name} = {items}")

    def _element(self, field: Field) -> None:
        if field.type == "uuid":
            self._out.add("item = buf[pos : pos + 16].tobytes()", "pos += 16")
        elif field.type == "string":
            self._out.add(f"item, pos = {'read_compact_string' if self._flexible else 'read_string'}(buf, pos, limit)")
        elif field.is_struct:
            self._out.add(f"item, pos = {self._names[field.type, self._version]}(buf, pos, limit)")
        else:
            raise SystemExit(f"arrays of {field.type} are not supported")

    def _tags(self, known: list[Field]) -> None:
        out = self._out
        alone = not self._group
        self._group.append(("B", "n", "tags"))
        self._flush()
        with out.block("if n:"):
            if not alone:
                out.add('at = "tags"')
            if not known:
                out.add("pos = skip_tags(buf, pos - 1, limit)")
                return
            out.add("n, pos = read_uvarint(buf, pos - 1)")
            with out.block("for _ in range(n):"):
                out.add('at = "tags"', "tag, pos = read_uvarint(buf, pos)", "size, pos = read_uvarint(buf, pos)", "stop = pos + size")
                with out.block("if stop > limit:"):
                    out.add("raise bad_length(size, limit - pos)")
                for number, field in enumerate(known):
                    with out.block(f"{'elif' if number else 'if'} tag == {field.tag}:"):
                        out.add(f'at = "{field.name}"')
                        self._field(field)
                        self._flush()
                with out.block("else:"):
                    out.add("pos = stop")
                with out.block("if pos != stop:"):
                    out.add('raise ValueError("tagged field does not end where its size says")')

    def _flush(self) -> None:
        """Writes the call that reads the gathered fixed fields."""
        group, self._group = self._group, []
        if not group:
            return
        self._out.add(f'at = "{group[0][2]}"')
        codes = [code for code, _, _ in group]
        size = sum(1 if code == "B" else next(SIZES[kind] for kind, c in FIXED.items() if c == code) for code in codes)
        if codes == ["B"]:
            self._out.add(f"{group[0][1]} = buf[pos]")
        else:
            targets = ", ".join(target for _, target, _ in group) + ("," if len(group) == 1 else "")
            self._out.add(f"({targets}) = {self._constants.name('read', codes)}(buf, pos)")
        self._out.add(f"pos += {size}")
