"""What the settings say about a cloud store: how to reach it, and how bundles are flushed to it (R13)."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.assembly.settings import FrazilSettings
from frazil.kit.errors import Refused
from frazil.log.append import FlushPolicy
from frazil.objects.access import CloudAccess

_CLOUD_SCHEMES = ("s3:", "s3model:")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preset:
    interval_ms: int
    inflight: int


def cloud_access(settings: FrazilSettings) -> CloudAccess:
    """The ``s3`` group as the object store wants it."""
    given = settings.s3
    return CloudAccess(
        endpoint=given.endpoint,
        region=given.region,
        access_key_id=given.access_key_id,
        secret_access_key=given.secret_access_key,
        session_token=given.session_token,
        path_style=given.path_style,
        allow_http=given.allow_http,
        ca_file=given.ca_file,
        deadline_ms=given.timeout_ms,
    )


def in_cloud(settings: FrazilSettings) -> bool:
    """True when a PUT takes tens of milliseconds and costs money."""
    return settings.store.objects.startswith(_CLOUD_SCHEMES)


def flush_policy(settings: FrazilSettings) -> FlushPolicy:
    """When bundles are cut, by preset and what is set beside it. Raises Refused for a preset that does not exist."""
    given, presets = settings.broker, _presets()
    name = given.flush_preset
    if name == "auto":
        name = "balanced" if in_cloud(settings) else "local"
    preset = presets.get(name)
    if preset is None:
        raise Refused(f"broker.flush_preset: {name!r} is none of auto, {', '.join(presets)}")
    return FlushPolicy(
        interval_ms=preset.interval_ms if given.flush_interval_ms < 0 else given.flush_interval_ms,
        inflight=given.flush_inflight or preset.inflight,
        bytes_max=given.flush_bytes,
        buffer_bytes_max=given.buffer_bytes_max,
        hedge_share=given.flush_hedge_percent / 100 if in_cloud(settings) else 0.0,
    )


def _presets() -> dict[str, _Preset]:
    return {
        "local": _Preset(interval_ms=0, inflight=2),
        "balanced": _Preset(interval_ms=40, inflight=4),
        "economy": _Preset(interval_ms=250, inflight=2),
    }
