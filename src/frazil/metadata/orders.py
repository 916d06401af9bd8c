"""Parts of a slice that the owner of a table gives to other landing processes, and what became of them.

``landing-orders/{table}/{order}`` and ``landing-answers/{table}/{order}`` are written under the owner's lease,
``landing-takes/{table}/{order}`` under that of who took it: what a dead process left vanishes.
An answer counts only while its order stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.metadata.opening import prefix_end
from frazil.metadata.port import START, Check, Committed, Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

ORDERS: Final = "landing-orders/"
TAKES: Final = "landing-takes/"
ANSWERS: Final = "landing-answers/"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPart:
    """One partition of an order: read from ``offset`` on."""

    key: PartitionKey
    topic: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Work for another process. ``number`` is a ULID; ``lease`` the owner's."""

    table: str
    number: str
    uuid: str
    lease: int
    parts: tuple[OrderPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of an order: the key of an object that says it, or why there is none."""

    number: str
    handover: str = ""
    trouble: str = ""


async def put_order(store: MetadataStore, order: Order) -> None:
    """Offers an order. Raises Conflict when the lease has ended, RetryLater."""
    parts = [f"{part.key.topic_id.hex()} {int(part.key.partition)} {part.offset} {part.topic}" for part in order.parts]
    value = encode({"uuid": order.uuid, "lease": order.lease, "parts": parts})
    await store.commit((), [Write(key=_key(ORDERS, order), value=value, lease=order.lease)])


async def free_orders(store: MetadataStore) -> tuple[Order, ...]:
    """Orders that nobody has taken, oldest first. Raises RetryLater, Corrupt."""
    orders = (await store.range(ORDERS, prefix_end(ORDERS))).entries
    if not orders:
        return ()
    takes = {entry.key.removeprefix(TAKES) for entry in (await store.range(TAKES, prefix_end(TAKES))).entries}
    found = [_order(entry) for entry in orders if entry.key.removeprefix(ORDERS) not in takes]
    return tuple(sorted(found, key=lambda order: order.number))


async def take_order(store: MetadataStore, order: Order, process: str, *, lease: int) -> bool:
    """The order is this process's now. False: somebody was faster, or it was withdrawn. Raises Conflict, RetryLater."""
    entry = (await store.range(_key(ORDERS, order), _key(ORDERS, order) + "\0")).entries
    if not entry:
        return False
    key, value = _key(TAKES, order), encode({"process": process})
    checks = [Check(key=entry[0].key, version=entry[0].version), Check(key=key, version=START)]
    done = await store.commit(checks, [Write(key=key, value=value, lease=lease)])
    return isinstance(done, Committed)


async def answer_order(store: MetadataStore, order: Order, answer: Answer) -> bool:
    """Tells the owner. False: the order does not stand any more, nobody will read it. Raises Conflict, RetryLater."""
    entry = (await store.range(_key(ORDERS, order), _key(ORDERS, order) + "\0")).entries
    if not entry:
        return False
    value = encode({"handover": answer.handover, "trouble": answer.trouble})
    checks = [Check(key=entry[0].key, version=entry[0].version)]
    done = await store.commit(checks, [Write(key=_key(ANSWERS, order), value=value, lease=order.lease)])
    return isinstance(done, Committed)


async def taken_orders(store: MetadataStore, table: str) -> frozenset[str]:
    """Numbers of a table's orders that somebody works on. Raises RetryLater."""
    prefix = f"{TAKES}{table}/"
    return frozenset(entry.key.removeprefix(prefix) for entry in (await store.range(prefix, prefix_end(prefix))).entries)


async def read_answers(store: MetadataStore, table: str) -> tuple[Answer, ...]:
    """What has been answered of a table's orders. Raises RetryLater, Corrupt."""
    prefix = f"{ANSWERS}{table}/"
    found = []
    for entry in (await store.range(prefix, prefix_end(prefix))).entries:
        fields = decode(entry.value, where=entry.key)
        found.append(Answer(number=entry.key.removeprefix(prefix), handover=fields.text("handover"), trouble=fields.text("trouble")))
    return tuple(found)


async def end_orders(store: MetadataStore, orders: Sequence[Order]) -> None:
    """Withdraws orders, or is done with them: no answer counts from now on. Raises RetryLater."""
    keys = [_key(prefix, order) for order in orders for prefix in (ORDERS, TAKES, ANSWERS)]
    if keys:
        await store.commit((), [Write(key=key, value=None) for key in keys])


def _key(prefix: str, order: Order) -> str:
    return f"{prefix}{order.table}/{order.number}"


def _order(entry: Entry) -> Order:
    fields = decode(entry.value, where=entry.key)
    table, _, number = entry.key.removeprefix(ORDERS).rpartition("/")
    parts = []
    for line in fields.texts("parts"):
        topic_id, partition, offset, topic = line.split(" ", 3)
        key = PartitionKey(TopicId(bytes.fromhex(topic_id)), PartitionId(int(partition)))
        parts.append(OrderPart(key=key, topic=topic, offset=int(offset)))
    return Order(table=table, number=number, uuid=fields.text("uuid"), lease=fields.number("lease"), parts=tuple(parts))
