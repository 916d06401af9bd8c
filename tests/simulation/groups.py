"""Members of a consumer group that only commit positions: each owner goes on from what it finds committed (R19).

Whatever was acknowledged as committed before a question is never above the answer, whoever owns the partition by then.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict

from tests.simulation import kafka
from tests.simulation.clients import TIMEOUT_S, Cluster
from tests.simulation.kafka import Broken, Connection, Reader, _text

JOIN, HEARTBEAT, LEAVE, SYNC = 11, 12, 13, 14
SESSION_MS = 2_000


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Group:
    """What is known of one group's commits."""

    def __init__(self, name: str, topic: str, partitions: int) -> None:
        self.name, self.topic, self.partitions = name, topic, partitions
        self.acked: dict[int, int] = defaultdict(int)
        self.sent: dict[int, int] = defaultdict(int)


class Member:
    """One member, for ever: joins, is given partitions, commits, leaves or falls silent, joins again."""

    def __init__(self, name: str, cluster: Cluster, group: Group) -> None:
        self.name, self._cluster, self._group = name, cluster, group
        self._id = ""

    async def run(self) -> None:
        chance = self._cluster.chance
        while True:
            try:
                connection = await self._find()
                try:
                    await self._live(connection)
                finally:
                    connection.close()
            except Broken:
                await asyncio.sleep(0.1 + 0.4 * chance.random())
            if chance.random() < 0.3:
                await asyncio.sleep(3 * chance.random())

    async def _find(self) -> Connection:
        connection = self._cluster.connect()
        answer = await connection.ask(kafka.FIND_COORDINATOR, 0, kafka.find_coordinator_request(self._group.name), timeout_s=TIMEOUT_S)
        error, node = kafka.read_find_coordinator(answer)
        connection.close()
        if error:
            raise Broken(f"find coordinator: {error}")
        return self._cluster.connect(node)

    async def _live(self, connection: Connection) -> None:
        generation, owned = await self._join(connection)
        positions = {partition: await self._read(connection, partition) for partition in owned}
        chance = self._cluster.chance
        for _ in range(chance.choice((3, 10, 40))):
            await asyncio.sleep(0.1 + 0.4 * chance.random())
            await self._expect(connection, HEARTBEAT, 1, _text(self._group.name) + struct.pack(">i", generation) + _text(self._id))
            if owned and chance.random() < 0.7:
                partition = chance.choice(owned)
                positions[partition] += 1
                await self._commit(connection, generation, partition, positions[partition])
            if chance.random() < 0.2:
                await self._read(connection, chance.randrange(self._group.partitions))
        if chance.random() < 0.5:
            await self._expect(connection, LEAVE, 1, _text(self._group.name) + _text(self._id))
            self._id = ""

    async def _join(self, connection: Connection) -> tuple[int, list[int]]:
        body = _text(self._group.name) + struct.pack(">ii", SESSION_MS, SESSION_MS) + _text(self._id) + _text("sim")
        body += struct.pack(">i", 1) + _text("spread") + _blob(b"")
        answer = await connection.ask(JOIN, 2, body, timeout_s=TIMEOUT_S)
        answer.number()
        self._check(answer.number("h"))
        generation = answer.number()
        answer.text()
        leader, self._id = answer.text(), answer.text()
        members = []
        for _ in range(answer.number()):
            members.append(answer.text())
            answer.bytes()
        body = _text(self._group.name) + struct.pack(">i", generation) + _text(self._id)
        shares = self._shares(members) if leader == self._id else {}
        body += struct.pack(">i", len(shares)) + b"".join(_text(member) + _blob(share) for member, share in shares.items())
        answer = await connection.ask(SYNC, 1, body, timeout_s=TIMEOUT_S)
        answer.number()
        self._check(answer.number("h"))
        return generation, list(answer.bytes())

    def _shares(self, members: list[str]) -> dict[str, bytes]:
        members = sorted(members)
        return {member: bytes(range(number, self._group.partitions, len(members))) for number, member in enumerate(members)}

    async def _read(self, connection: Connection, partition: int) -> int:
        group = self._group
        floor = group.acked[partition]
        answer = await connection.ask(
            kafka.OFFSET_FETCH, 1, kafka.offset_fetch_request(group.name, group.topic, [partition]), timeout_s=TIMEOUT_S
        )
        error, offset = kafka.read_offset_fetch(answer)[partition]
        self._check(error)
        if offset < floor or offset > group.sent[partition]:
            if offset >= 0 or floor:
                self._cluster.book.fail(
                    f"{self.name}: offset of partition {partition} reads {offset}, {floor} was acknowledged, {group.sent[partition]} sent"
                )
        return max(offset, 0)

    async def _commit(self, connection: Connection, generation: int, partition: int, offset: int) -> None:
        group = self._group
        group.sent[partition] = max(group.sent[partition], offset)
        body = _text(group.name) + struct.pack(">i", generation) + _text(self._id) + struct.pack(">qi", -1, 1) + _text(group.topic)
        body += struct.pack(">iiq", 1, partition, offset) + _text("")
        answer = await connection.ask(kafka.OFFSET_COMMIT, 2, body, timeout_s=TIMEOUT_S)
        self._check(kafka.read_offset_commit(answer)[partition])
        group.acked[partition] = max(group.acked[partition], offset)

    async def _expect(self, connection: Connection, api: int, version: int, body: bytes) -> None:
        answer: Reader = await connection.ask(api, version, body, timeout_s=TIMEOUT_S)
        answer.number()
        self._check(answer.number("h"))

    def _check(self, error: int) -> None:
        if error == 25:  # UNKNOWN_MEMBER_ID: come back as somebody new
            self._id = ""
        if error:
            raise Broken(f"error {error}")
