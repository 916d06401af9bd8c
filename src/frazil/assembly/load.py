"""Reads settings once: defaults < YAML file < FRAZIL_… variables < flags. The only reader of the environment."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from frazil.assembly.settings import FrazilSettings
from frazil.kit.errors import Refused
from frazil.kit.faultpoints import POINTS
from frazil.kit.settings import Loaded, Sources, load


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """Stop the process (SIGKILL to itself) at the ``passage``-th passage of ``point``."""

    point: str
    passage: int
    marker: str
    """File that is created just before, so that a harness knows the point fired. Empty: none."""


def load_settings(*, config: str | None, flags: Mapping[str, str]) -> Loaded[FrazilSettings]:
    """Settings of this process. ``config`` or FRAZIL_CONFIG names the YAML file; without either only defaults hold."""
    name = config or os.environ.get("FRAZIL_CONFIG", "")
    document: Mapping[str, object] = _read_yaml(pathlib.Path(name)) if name else {}
    variables = {key: value for key, value in os.environ.items() if key.startswith(("FRAZIL_", "AWS_"))}
    sources = Sources(file=document, file_name=name or "no file", environment=variables, flags=flags)
    loaded = load(FrazilSettings, sources)
    source = {leaf.name: leaf.source for leaf in loaded.explained}
    if source["s3.session_token"].startswith("env AWS_") and not source["s3.access_key_id"].startswith("env AWS_"):
        del variables["AWS_SESSION_TOKEN"]  # it belongs to the variables' keys, not to those that hold
        return load(FrazilSettings, sources)
    return loaded


def planned_fault() -> PlannedFault | None:
    """FRAZIL_FAULT=B3:2[:marker file] asks this process to die at a named point; used by the kill tests only."""
    text = os.environ.get("FRAZIL_FAULT", "")
    if not text:
        return None
    point, _, rest = text.partition(":")
    passage, _, marker = rest.partition(":")
    if point not in POINTS or not (passage or "1").isdigit():
        raise Refused(f"FRAZIL_FAULT={text!r}: want POINT:PASSAGE with POINT one of {', '.join(POINTS)}")
    return PlannedFault(point=point, passage=int(passage or "1"), marker=marker)


def _why_not_yaml(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Problem and place. The line itself is not repeated: it may hold a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem or 'wrong'}, line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
    return f"{type(error).__name__}, {getattr(error, 'reason', 'unreadable')}"


def _read_yaml(path: pathlib.Path) -> Mapping[str, object]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"settings file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(f"settings file {path} is not YAML: {_why_not_yaml(error)}") from None  # its cause quotes the line, secrets and all
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise Refused(f"settings file {path}: the top must be a mapping of setting names")
    return document
