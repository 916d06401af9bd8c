"""Waits until what a table's topics hold is in the table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from frazil.admin.port import KafkaAdmin, TableAdmin, TopicDetail
from frazil.kit.errors import Missing, RetryLater

_POLL_S = 0.3


async def await_arrival(kafka: KafkaAdmin, tables: TableAdmin, table: str, *, timeout_s: float) -> int:
    """Returns when every record that the topics of ``table`` hold now is in it or in its dead letters; the number of records.

    The table's own snapshot is asked, not a status. Raises RetryLater with what is missing after ``timeout_s`` seconds.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + timeout_s
    topics: tuple[TopicDetail, ...] | None = None
    missing = "landing has not taken it up"
    while True:
        if topics is None:
            topics = await _topics(kafka, tables, table)
        if topics is not None:
            missing = await _missing(tables, table, topics)
            if not missing:
                return sum(p.end_offset - p.start_offset for topic in topics for p in topic.partitions)
        if loop.time() >= give_up:
            raise RetryLater(f"{table} after {timeout_s:g} s: {missing}; `frazil land status` tells more")
        await asyncio.sleep(_POLL_S)


async def _topics(kafka: KafkaAdmin, tables: TableAdmin, table: str) -> tuple[TopicDetail, ...] | None:
    for row in await tables.status():
        if row.table == table and row.topics:
            return tuple([await kafka.describe_topic(name) for name in row.topics.split(", ")])
    return None


async def _missing(tables: TableAdmin, table: str, topics: Sequence[TopicDetail]) -> str:
    """The first partition that is behind, in words; empty: none is. A partition without records has nothing to wait for."""
    try:
        detail = await tables.describe(table)
    except Missing:
        detail = None
    reached = {(topic_id, partition): offset for topic_id, partition, offset in detail.progress} if detail else {}
    for topic in topics:
        for row in topic.partitions:
            offset = reached.get((topic.topic_id, row.partition), 0)
            if row.start_offset < row.end_offset and offset < row.end_offset:
                return f"{topic.name}/{row.partition} is in the table up to offset {offset} of {row.end_offset}"
    return ""
