"""Every handler, once. Dispatch, the ApiVersions answer and docs/protocol-support.md are made from this list."""

from __future__ import annotations

from frazil.broker.handlers.alter_configs import alter_configs
from frazil.broker.handlers.api_versions import api_versions
from frazil.broker.handlers.create_partitions import create_partitions
from frazil.broker.handlers.create_topics import create_topics
from frazil.broker.handlers.delete_groups import delete_groups
from frazil.broker.handlers.delete_records import delete_records
from frazil.broker.handlers.delete_topics import delete_topics
from frazil.broker.handlers.describe_cluster import describe_cluster
from frazil.broker.handlers.describe_configs import describe_configs
from frazil.broker.handlers.describe_groups import describe_groups
from frazil.broker.handlers.fetch import fetch
from frazil.broker.handlers.find_coordinator import find_coordinator
from frazil.broker.handlers.heartbeat import heartbeat
from frazil.broker.handlers.incremental_alter_configs import incremental_alter_configs
from frazil.broker.handlers.init_producer_id import init_producer_id
from frazil.broker.handlers.join_group import join_group
from frazil.broker.handlers.leave_group import leave_group
from frazil.broker.handlers.list_groups import list_groups
from frazil.broker.handlers.list_offsets import list_offsets
from frazil.broker.handlers.metadata import metadata
from frazil.broker.handlers.offset_commit import offset_commit
from frazil.broker.handlers.offset_delete import offset_delete
from frazil.broker.handlers.offset_fetch import offset_fetch
from frazil.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from frazil.broker.handlers.produce import produce
from frazil.broker.handlers.sync_group import sync_group
from frazil.broker.registry import Handler

HANDLERS: tuple[Handler, ...] = tuple(
    sorted(
        (
            alter_configs, api_versions, create_partitions, create_topics, delete_groups, delete_records, delete_topics,
            describe_cluster, describe_configs, describe_groups, fetch, find_coordinator, heartbeat, incremental_alter_configs,
            init_producer_id, join_group, leave_group, list_groups, list_offsets, metadata, offset_commit, offset_delete,
            offset_fetch, offset_for_leader_epoch, produce, sync_group,
        ),
        key=lambda handler: handler.key,
    )
)  # fmt: skip


def support_page() -> str:
    """docs/protocol-support.md: one row per API."""
    lines = [
        "# Kafka protocol support",
        "",
        "Generated from the broker's handlers; `make docs` writes it and a test compares it.",
        "",
        "| key | API | versions | what it does |",
        "|---|---|---|---|",
    ]
    details = []
    for handler in HANDLERS:
        name = "".join(part.capitalize() for part in handler.key.name.split("_"))
        title, _, body = handler.doc.strip().partition("\n")
        what = title.partition(": ")[2] or title.partition(", ")[2]
        lines.append(f"| {handler.key.value} | {name} | {handler.advertised_first}-{handler.last} | {what.rstrip('.')} |")
        details += ["", f"## {name}", "", title, *([body.rstrip()] if body.strip() else [])]
    return "\n".join([*lines, *details]) + "\n"
