"""Numbers about what the broker does, as plain values: requests, errors, bytes and time per API; connections."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ApiCounters:
    """One API since the start of the process."""

    requests: int = 0
    errors: int = 0
    """Requests that ended without an answer of their handler, or whose answer carries a top-level error."""
    bytes_in: int = 0
    bytes_out: int = 0
    latency_ms_sum: float = 0.0
    latency_ms_max: float = 0.0


@dataclass(slots=True)
class BrokerCounters:
    """Everything that is counted."""

    apis: dict[str, ApiCounters] = field(default_factory=dict)
    connections_opened: int = 0
    connections_open: int = 0
    connections_refused: int = 0
    frames_malformed: int = 0
    group_records_lost: int = 0
    """Groups given up because another broker claimed them (R19)."""

    def api(self, name: str) -> ApiCounters:
        """The counters of one API."""
        found = self.apis.get(name)
        if found is None:
            found = self.apis[name] = ApiCounters()
        return found
