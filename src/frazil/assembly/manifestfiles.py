"""Reads manifests from files, directories and standard input, with the variables of this process."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator, Sequence

from frazil.admin.manifests import Manifest, read_manifests
from frazil.admin.manifests.tree import BYTES_MAX
from frazil.kit.errors import Refused

_ENDINGS = (".yaml", ".yml", ".json")


def load_manifests(sources: Sequence[str]) -> tuple[Manifest, ...]:
    """Every manifest of ``sources``: a file, a directory (its .yaml, .yml and .json files by name, not deeper) or ``-``.

    Raises ManifestFault for what stands in them, Refused when one cannot be read or nothing is in them.
    """
    found = [manifest for name, data in _contents(sources) for manifest in read_manifests(data, name, os.environ)]
    if not found:
        raise Refused(f"no manifest in {', '.join(sources)}")
    return tuple(found)


def _contents(sources: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for source in sources:
        if source == "-":
            yield "stdin", sys.stdin.buffer.read(BYTES_MAX + 1)
            continue
        path = pathlib.Path(source)
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS and file.is_file())
            if not files:
                raise Refused(f"directory {source} holds no {', '.join(_ENDINGS)} file")
            for file in files:
                yield str(file), _read(file)
        else:
            yield source, _read(path)


def _read(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
