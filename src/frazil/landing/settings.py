"""What landing works with and how it behaves: components and numbers, both given by ``assembly``."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from frazil.catalogs.port import Catalog
from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import Offload
from frazil.landing.discover import AutoLanding
from frazil.landing.naming import SourceNaming
from frazil.landing.sharing import Alone, Sharing
from frazil.log.view import LogSource, LogView
from frazil.metadata.landings import LandingSpec
from frazil.metadata.port import MetadataStore
from frazil.metadata.topics import TopicRecord
from frazil.objects.port import ObjectStore
from frazil.schemas.registry import SchemaSource


class TopicView(Protocol):
    """Which topics there are. Everything but ``refresh`` answers from memory."""

    async def refresh(self) -> None:
        """Brings the view up to date. Raises RetryLater."""
        ...

    def get(self, name: str) -> TopicRecord | None:
        """The topic of this name."""
        ...

    def all(self) -> tuple[TopicRecord, ...]:
        """Every topic, by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingDeps:
    """Components. ``catalogs`` by the name that a spec's option ``catalog`` uses; it may change, and a table whose catalog is another
    object than before goes on with the new one. ``objects`` holds the tables' files.

    ``source`` identifies the log: cluster id and incarnation (R22, F03).
    """

    store: MetadataStore
    topics: TopicView
    index: LogView
    reader: LogSource
    objects: ObjectStore
    catalogs: Mapping[str, Catalog]
    source: str
    clock: Clock
    chance: Chance
    offload: Offload
    faults: FaultPoints
    managed: Set[str] = frozenset()
    """Catalogs that care for their tables themselves: ours stays away."""
    specs: tuple[LandingSpec, ...] | None = None
    """Land exactly these, whatever metadata says; None: those of metadata."""
    label: str = ""
    """Stands before table names in metadata (pin, status, identity), so that two processes may land in tables of one name in two
    catalogs."""
    registry: SchemaSource | None = None
    """Where the schemas of values are that name one; None: there is none, and such landings are refused."""
    naming: SourceNaming | None = None
    """How a log without a cluster is recognised (R27). Such a log has no pins: nobody would heed them."""
    sharing: Sharing = field(default_factory=Alone)
    """Which tables are this process's, when several share them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSettings:
    """Numbers. Times in milliseconds, sizes in bytes."""

    auto: AutoLanding | None = field(default_factory=AutoLanding)
    """How topics without a spec land; None: not at all."""
    catalog: str = "default"
    commit_interval_ms: int = 5_000
    """Time between two commits of an automatic table; a spec has its own."""
    commit_interval_min_ms: int = 1_000
    """No table commits more often than this, whatever its spec says."""
    slice_bytes_max: int = 64 * 1024 * 1024
    """Bytes read for one commit, and uncompressed value bytes held for it: bounds the memory of one table."""
    slices_bytes_max: int = 640 * 1024 * 1024
    """Memory for the slices of all tables together, each in the shapes it takes; a table waits for its share before it reads."""
    slice_rows_max: int = 500_000
    heavy_max: int = 2
    """Slices decoded or converted at once in the process; the offload's other threads stay free for input and output."""
    rewrite: bool = True
    """False: files are neither merged nor folded; for tables that another program keeps."""
    rewrite_bytes_max: int = 512 * 1024 * 1024
    """Memory of one rewrite. An eighth of it is the size on disk up to which files are merged, unless the table's own target is less."""
    rewrite_rows_max: int = 1_500_000
    """Rows of one rewrite."""
    dead_share: float = 0.005
    """Part of an upsert table's rows that may be deleted by place before files are written without them."""
    dead_rows_min: int = 1_000
    """Fewer deleted rows do not matter, however small the table."""
    key_cache_bytes: int = 256 * 1024 * 1024
    """Key columns of upsert tables held in memory, of one catalog's tables together; what is not held is read again for each commit."""
    batch_bytes_max: int = 128 * 1024 * 1024
    """A single batch may not decompress to more."""
    use_kernel: bool = True
    """False: the Python twins decode, whatever is installed (tests, measurements)."""
    progress_idle_ms: int = 60_000
    """How long progress without rows may wait for rows to travel with (R06)."""
    call_deadline_ms: int = 30_000
    """Deadline of one catalog or object call outside the committer, which has its own (F29)."""
    read_patience_ms: int = 5_000
    """A joint read that takes longer is split by partition, so that one slow object holds up nobody else (F30)."""
    route_tables_at_once: int = 100
    """Tables of one route whose catalog calls are under way at once."""
    route_patience_ms: int = 5_000
    """When no table of a route has got on for so long, those still at it are left behind, and their records wait for them."""
    backoff_min_ms: int = 250
    backoff_max_ms: int = 30_000
    discover_interval_ms: int = 1_000
    status_interval_ms: int = 1_000
    care_interval_ms: int = 60_000
    care_deadline_ms: int = 120_000
    help_patience_ms: int = 30_000
    """How long an owner waits for a part of a slice that another process works on."""
    damage_reads: int = 5
    """How often a batch with a wrong checksum is read again before it becomes a dead letter."""
    stop_ms: int = 10_000
    """How long a clean stop may take for a last commit."""
    snapshots_keep: int = 100
    delete_grace_ms: int = 24 * 3600 * 1000
    metadata_grace_ms: int = 600_000
