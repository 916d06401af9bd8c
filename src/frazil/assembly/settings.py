"""The whole settings tree. Each leaf's path is its YAML place, its flag and (upper-cased) its variable."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.kit.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where data, metadata and tables live. Empty: under ``data_dir``."""

    objects: str = setting("", "object store: s3://bucket/prefix or file:///var/lib/frazil/objects; empty: data_dir/objects")
    metadata: str = setting("", "metadata store, for example sqlite:///var/lib/frazil/metadata.db; empty: data_dir/metadata.db")
    catalog: str = setting("", "Iceberg catalog, for example sql:///var/lib/frazil/catalog.db; empty: data_dir/catalog.db")
    namespace: str = setting("default", "first path component of sealed segments ({namespace}/{topic}/{partition}/segment-….kfs)")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How to reach the bucket of ``store.objects: s3://…``. Empty keys: the AWS chain (web identity, container, instance)."""

    endpoint: str = setting(
        "", "https://host:port of an S3 store other than AWS' (or AWS_ENDPOINT_URL_S3)", also=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    )
    region: str = setting("", "region of the bucket (or AWS_REGION)", also=("AWS_REGION", "AWS_DEFAULT_REGION"))
    access_key_id: str = setting("", "access key id (or AWS_ACCESS_KEY_ID)", also=("AWS_ACCESS_KEY_ID",))
    secret_access_key: str = setting("", "its secret (or AWS_SECRET_ACCESS_KEY)", secret=True, also=("AWS_SECRET_ACCESS_KEY",))
    session_token: str = setting("", "its session token (or AWS_SESSION_TOKEN)", secret=True, also=("AWS_SESSION_TOKEN",))
    path_style: bool = setting(True, "endpoint/bucket/key (true) or bucket.endpoint/key (false)")
    allow_http: bool = setting(False, "allow an endpoint without TLS (or AWS_ALLOW_HTTP)", also=("AWS_ALLOW_HTTP",))
    ca_file: str = setting("", "PEM file of a private certificate authority (or AWS_CA_BUNDLE)", also=("AWS_CA_BUNDLE",))
    timeout_ms: int = setting(15_000, "deadline of one request; large ones get more", least=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """The Iceberg catalog, when it is a REST catalog, Glue or a Hive metastore.

    Names as Iceberg's clients have them, with ``_`` for ``-`` and ``.``.
    """

    uri: str = setting(
        "", "Iceberg REST catalog, https://host/path (what stands before /v1), or glue:, or hive://host:9083; empty: store.catalog"
    )
    warehouse: str = setting("", "which warehouse of the catalog: a name or an address, as the catalog wants it")
    prefix: str = setting("", "path between /v1/ and the resources; empty: what the catalog says itself")
    token: str = setting("", "bearer token for the catalog", secret=True)
    credential: str = setting("", "OAuth2 client credentials, id:secret", secret=True)
    oauth2_server_uri: str = setting("", "OAuth2 token endpoint; empty: the catalog's own /v1/oauth/tokens")
    scope: str = setting("", "OAuth2 scope; empty: catalog (Polaris wants PRINCIPAL_ROLE:ALL, Unity all-apis)")
    audience: str = setting("", "OAuth2 audience, where the token endpoint wants one")
    resource: str = setting("", "OAuth2 resource, where the token endpoint wants one")
    sigv4: bool = setting(False, "sign requests with AWS Signature Version 4 (needs frazil[aws])")
    signing_name: str = setting("execute-api", "AWS service name for signatures: glue, s3tables, execute-api")
    signing_region: str = setting("", "AWS region for signatures, and of Glue; empty: the region of the tables' files")
    glue_id: str = setting("", "AWS account of the Glue Data Catalog; empty: that of the keys")
    hive_locks: bool = setting(True, "take Hive's lock around each commit, for writers that rely on it alone (Iceberg's Java client)")
    headers: str = setting("", "more headers of every request: Name=value, Name=value", secret=True)
    ca_file: str = setting("", "PEM file of the certificate authority of catalog and token endpoint; empty: the system's")
    proxy: str = setting("", "proxy for the catalog, http://host:port; empty: HTTPS_PROXY and NO_PROXY of the environment", secret=True)
    vended: bool = setting(True, "ask the catalog for credentials to the tables' files (vended credentials)")
    managed: bool = setting(False, "the catalog cares for its tables itself: Frazil neither expires, merges nor deletes there")
    timeout_ms: int = setting(60_000, "deadline of one request to the catalog, sign-in included", least=100)
    s3_endpoint: str = setting("", "object store of the tables' files, where the catalog does not say; empty: the one of the log")
    s3_region: str = setting("", "its region")
    s3_access_key_id: str = setting("", "access key id for the tables' files, where the catalog does not vend any", secret=True)
    s3_secret_access_key: str = setting("", "its secret", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The Kafka side."""

    id: int = setting(0, "broker id shown to clients, unique in the cluster", least=0, most=2**31 - 1)
    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(9092, "port to listen on; 0 picks a free one and prints it", least=0, most=65_535)
    advertised_host: str = setting("", "host that clients are told to connect to; empty: host")
    advertised_port: int = setting(0, "port that clients are told to connect to; 0: port", least=0, most=65_535)
    auto_create_topics: bool = setting(True, "create a topic when a client first asks for it")
    default_partitions: int = setting(1, "partitions of a topic created without a number", least=1)
    request_bytes_max: int = setting(100 * 1024 * 1024, "largest request frame accepted, bytes", least=1024)
    requests_bytes_max: int = setting(512 * 1024 * 1024, "requests and answers of all connections held at once, bytes", least=1024 * 1024)
    buffer_bytes_max: int = setting(256 * 1024 * 1024, "produce bytes held before back-pressure, bytes", least=1024 * 1024)
    fetches_bytes_max: int = setting(256 * 1024 * 1024, "bytes that all fetches together may be reading at once", least=1024 * 1024)
    cache_bytes: int = setting(256 * 1024 * 1024, "block cache for fetches, bytes", least=0)
    flush_preset: str = setting("auto", "local (0 ms × 2), balanced (40 ms × 4), economy (250 ms × 2); auto: balanced on S3, else local")
    flush_interval_ms: int = setting(-1, "least time between two bundle cuts (0: none; -1: as the preset says)", least=-1)
    flush_bytes: int = setting(8 * 1024 * 1024, "bytes that cut a bundle early", least=1024)
    flush_inflight: int = setting(0, "bundles between cut and sequenced at once (0: as the preset says)", least=0)
    flush_hedge_percent: float = setting(5, "of 100 bundle PUTs so many may be sent twice when S3 is slow (0: none)", least=0, most=100)
    upkeep_interval_ms: int = setting(10_000, "time between two passes of sealing, retention and collection", least=100)
    seal_age_ms: int = setting(600_000, "age at which a bundle is sealed whatever it holds", least=0)
    segment_bytes: int = setting(64 * 1024 * 1024, "size at which segments are cut; that much unsealed is sealed early", least=1024)
    seal_bytes_max: int = setting(256 * 1024 * 1024, "bytes that sealing holds at once", least=1024 * 1024)
    collect_grace_ms: int = setting(600_000, "how long an unreachable object is kept", least=0)
    pin_max_ms: int = setting(7 * 24 * 3600 * 1000, "how long a table that does not move may hold back retention", least=0)
    http_host: str = setting("127.0.0.1", "address that /healthz and /metrics of the broker listen on")
    http_port: int = setting(0, "their port; 0: they are not served", least=0, most=65_535)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSettings:
    """The Iceberg side."""

    auto: bool = setting(True, "land every topic without a table of its own in {namespace}.{topic}")
    namespace: str = setting("lake", "Iceberg namespace of automatic tables (not `default`: that is a word of SQL)")
    commit_interval_ms: int = setting(5_000, "time between two commits of an automatic table", least=1_000)
    commit_bytes: int = setting(64 * 1024 * 1024, "raw bytes that commit before the interval", least=1024)
    slice_bytes_max: int = setting(64 * 1024 * 1024, "value bytes of one table that are landed in one go", least=64 * 1024)
    slice_rows_max: int = setting(500_000, "records of one table that are landed in one go", least=1_000)
    slices_bytes_max: int = setting(640 * 1024 * 1024, "memory for the slices of all tables together, bytes", least=1024 * 1024)
    cache_bytes: int = setting(64 * 1024 * 1024, "block cache of the landing process, bytes", least=0)
    progress_idle_ms: int = setting(60_000, "how long progress without rows may wait", least=1_000)
    call_timeout_ms: int = setting(30_000, "deadline of one catalog or object call", least=100)
    share: bool = setting(False, "share the tables with other landing processes: set it in all of them, or in none")
    share_lease_ms: int = setting(10_000, "how long the tables of a dead process wait for another, with landing.share", least=1_000)
    rewrite: bool = setting(True, "merge small data files and fold deletes of upsert tables")
    rewrite_bytes_max: int = setting(
        512 * 1024 * 1024,
        "memory of one such rewrite; an eighth of it is the size on disk up to which files are merged",
        least=8 * 1024 * 1024,
    )
    key_cache_bytes: int = setting(256 * 1024 * 1024, "key columns of upsert tables held in memory, per catalog", least=0)
    snapshots_max: int = setting(100, "recent snapshots kept in a table", least=2)
    data_grace_ms: int = setting(24 * 3600 * 1000, "age of an unreachable data file before it is deleted", least=0)
    metadata_grace_ms: int = setting(600_000, "age of an unreachable metadata file before it is deleted", least=0)
    http_host: str = setting("127.0.0.1", "address that /healthz and /metrics of the landing process listen on")
    http_port: int = setting(0, "their port; 0: they are not served", least=0, most=65_535)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The schema registry, for topics whose values name their schema: one at ``url``, or the cluster's own."""

    host: str = setting("127.0.0.1", "address the cluster's own registry listens on")
    port: int = setting(8081, "port of the cluster's own registry; 0: `frazil dev` does not serve it", least=0, most=65535)
    url: str = setting("", "another schema registry, with Confluent's API, http://host:8081; Apicurio: http://host:8080/apis/ccompat/v7")
    basic_auth: str = setting("", "user:password for the registry", secret=True)
    token: str = setting("", "bearer token for the registry", secret=True)
    ca_file: str = setting("", "PEM file of the registry's certificate authority; empty: the system's")
    timeout_ms: int = setting(10_000, "deadline of one request to the registry", least=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrazilSettings:
    """All of it."""

    data_dir: str = setting(".frazil", "directory of the embedded stores")
    log_level: str = setting("info", "debug, info, warning or error; messages go to stderr")
    store: StoreSettings = field(default_factory=StoreSettings)
    s3: S3Settings = field(default_factory=S3Settings)
    catalog: CatalogSettings = field(default_factory=CatalogSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    landing: LandingSettings = field(default_factory=LandingSettings)
