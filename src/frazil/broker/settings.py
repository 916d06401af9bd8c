"""What a broker can be told, as one frozen value; ``assembly`` fills it."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.broker.groups.values import GroupLimits
from frazil.kit.errors import Refused

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Identity, addresses and bounds of one broker process. Raises Refused for bounds that cannot work together."""

    node_id: int = 0
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 9092
    """Port to listen on; 0 takes a free one."""
    advertised_host: str = ""
    """What clients are told to connect to; empty: ``host``."""
    advertised_port: int = 0
    """0: the port that is listened on."""
    rack: str | None = None
    cluster_id: str = "frazil"
    shards: int = 64
    """Shards of the cluster (R04): leaders are chosen per shard."""

    auto_create_topics: bool = True
    default_partitions: int = 1
    partitions_max: int = 10_000
    """Largest number of partitions one topic may get."""

    request_bytes_max: int = 100 * _MIB
    """A larger frame closes its connection."""
    buffered_bytes_max: int = 512 * _MIB
    """Bytes of requests and answers that all connections together may hold; reading pauses above."""
    connection_inflight_max: int = 256
    """Requests of one connection that are handled at once; reading pauses above."""
    connections_max: int = 10_000
    idle_timeout_ms: int = 600_000
    """A connection without traffic and without open requests is closed after this long."""
    frame_timeout_ms: int = 30_000
    """A frame must be complete this long after its first byte, plus one second for each MiB."""
    fetch_bytes_max: int = 55 * _MIB
    """Upper bound of one Fetch answer, whatever the client asks (it may be passed by one batch)."""
    fetch_buffered_bytes_max: int = 256 * _MIB
    """Bytes that all Fetch requests together may be reading at once; more wait in line."""
    fetch_wait_max_ms: int = 60_000
    stop_timeout_ms: int = 10_000
    """How long ``stop`` waits for requests that are being handled."""

    lease_ttl_ms: int = 10_000
    """A broker that has not renewed its registration for this long counts as gone (R19)."""
    groups: GroupLimits = field(default_factory=GroupLimits)
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    """Offsets of a group are dropped this long after it became empty."""
    offsets_sweep_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        if self.buffered_bytes_max < 2 * self.request_bytes_max:
            raise Refused(
                f"buffered bytes of at most {self.buffered_bytes_max} cannot serve requests of {self.request_bytes_max} bytes; "
                "allow at least twice the largest request"
            )
        if not self.advertised_host and self.host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            raise Refused(
                f"broker {self.node_id} listens on every address ({self.host or 'empty host'}), which is no address to give to clients; "
                "set the advertised host to the name by which clients reach it"
            )
        if self.connection_inflight_max < 1 or self.default_partitions < 1:
            raise Refused("connection_inflight_max and default_partitions must be at least 1")
