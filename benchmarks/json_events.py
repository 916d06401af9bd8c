"""Synthetic events, the same for every benchmark: seeded, so two runs measure the same bytes.

``s``: 279 bytes on average, nearly flat: one nested struct, a field that is sometimes missing, one that is always null.
``b``: 1,008 bytes on average: structs two levels deep, a list of 2 to 7 structs that each hold a list of texts, escapes and
letters beyond ASCII. Compact JSON (no blanks), UTF-8, fields always in one order, as producers write it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_PAGES = ("/", "/cart", "/search?q=ice", "/product/8841", "/checkout/payment", "/account/orders/latest", "/help")
_COUNTRIES = ("DE", "FR", "PL", "US", "BR", "JP", "IN", "ZA")
_KINDS = ("page_view", "add_to_cart", "purchase", "search", "login")
_DEVICES = ("mobile", "desktop", "tablet")
_CITIES = ("Köln", "Łódź", "São Paulo", "Tokyo", "東京", "Zürich", "Boston", "Lyon")
_PRODUCTS = ("Teekanne", "Crème brûlée set", 'Lamp "Nova"', "Notebook A5", "Ice auger 20cm", "Куртка", "Desk\\Shelf 3")
_TAGS = ("new", "sale", "winter", "gift", "été", "bulk", "eco", "fragile", "last one", "24h")
_NOTES = ("line one\nline two", 'said "no"', "tab\there", "plain words only", "ends with \\", "größer als üblich")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of event: its column declarations and its maker."""

    name: str
    columns: tuple[str, ...]
    make: Callable[[random.Random, int], dict[str, object]]


def _stamp(number: int, chance: random.Random) -> str:
    seconds = number // 7
    day, hour = 1 + seconds // 86_400 % 28, seconds // 3600 % 24
    return f"2026-03-{day:02}T{hour:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{chance.randrange(1000):03}Z"


def _hex(chance: random.Random, digits: int) -> str:
    return f"{chance.getrandbits(digits * 4):0{digits}x}"


def make_s(chance: random.Random, number: int) -> dict[str, object]:
    """One small event."""
    event: dict[str, object] = {
        "event_id": 10_000_000 + number,
        "user_id": f"u-{chance.randrange(10_000_000):08}",
        "kind": chance.choice(_KINDS),
        "ts": _stamp(number, chance),
        "price": round(chance.uniform(1, 900), 2),
        "quantity": chance.randrange(1, 9),
        "is_new": chance.random() < 0.3,
        "page": chance.choice(_PAGES),
        "geo": {
            "country": chance.choice(_COUNTRIES),
            "lat": round(chance.uniform(-90, 90), 5),
            "lon": round(chance.uniform(-180, 180), 5),
        },
        "session": _hex(chance, 30),
        "referrer": None,
    }
    if chance.random() < 0.5:
        event["coupon"] = f"C{chance.randrange(100_000)}"
    return event


def make_b(chance: random.Random, number: int) -> dict[str, object]:
    """One large event."""
    return {
        "order_id": 500_000_000 + number,
        "trace": f"{_hex(chance, 8)}-{_hex(chance, 4)}-4{_hex(chance, 3)}-a{_hex(chance, 3)}-{_hex(chance, 12)}",
        "created": _stamp(number, chance),
        "customer": {
            "id": chance.randrange(100_000_000),
            "name": f"{chance.choice(('Anna', 'Jürgen', 'Zoë', 'Ivan', '花子'))} {chance.choice(('Meyer', 'Nowak', 'García', 'Smith'))}",
            "email": f"user{chance.randrange(1_000_000)}@example.org",
            "address": {
                "street": f"{chance.choice(('Hauptstraße', 'Main Street', 'Rue de la Paix', 'ul. Długa'))} {chance.randrange(1, 200)}",
                "city": chance.choice(_CITIES),
                "zip": f"{chance.randrange(100_000):05}",
                "country": chance.choice(_COUNTRIES),
                "lat": round(chance.uniform(-90, 90), 6),
                "lon": round(chance.uniform(-180, 180), 6),
            },
        },
        "items": [
            {
                "sku": f"SKU-{chance.randrange(1_000_000):06}",
                "title": chance.choice(_PRODUCTS),
                "quantity": chance.randrange(1, 12),
                "price": round(chance.uniform(0.5, 500), 2),
                "tags": [chance.choice(_TAGS) for _ in range(chance.randrange(0, 5))],
                "gift": chance.random() < 0.1,
            }
            for _ in range(chance.randrange(2, 8))
        ],
        "note": chance.choice(_NOTES),
        "total": round(chance.uniform(5, 3000), 2),
        "device": chance.choice(_DEVICES),
        "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 (arm64; Linux)",
        "discount": None,
        "paid": chance.random() < 0.9,
    }


S = Kind(
    name="s",
    columns=(
        "event_id long", "user_id string", "kind string", "ts timestamptz", "price double", "quantity int", "is_new boolean", "page string",
        "geo struct<country: string, lat: double, lon: double>", "session string", "referrer string", "coupon string",
    ),
    make=make_s,
)  # fmt: skip
B = Kind(
    name="b",
    columns=(
        "order_id long", "trace string", "created timestamptz",
        "customer struct<id: long, name: string, email: string, address: struct<street: string, city: string, zip: string, "
        "country: string, lat: double, lon: double>>",
        "items list<struct<sku: string, title: string, quantity: int, price: double, tags: list<string>, gift: boolean>>",
        "note string", "total double", "device string", "agent string", "discount double", "paid boolean",
    ),
    make=make_b,
)  # fmt: skip
KINDS = {kind.name: kind for kind in (S, B)}


def events(kind: str, count: int, seed: int = 1) -> list[bytes]:
    """``count`` events of a kind, each one JSON document."""
    chance = random.Random(seed)
    make = KINDS[kind].make
    return [json.dumps(make(chance, number), separators=(",", ":"), ensure_ascii=False).encode() for number in range(count)]


def events_of_bytes(kind: str, total: int, seed: int = 1, distinct: int = 50_000) -> list[bytes]:
    """Events of about ``total`` bytes in all; beyond ``distinct`` ones they come again, as making them is slow."""
    first = events(kind, min(distinct, max(1, total // 200)), seed)
    found: list[bytes] = []
    size = 0
    while size < total:
        for value in first:
            found.append(value)
            size += len(value)
            if size >= total:
                break
    return found


def poisoned(values: Sequence[bytes], every: int, seed: int = 1) -> list[bytes]:
    """The same with one bad record among ``every``: half of them cut short, half with a text where a number belongs."""
    chance = random.Random(seed)
    bad = list(values)
    for begin in range(0, len(bad) - every + 1, every):
        row = begin + chance.randrange(every)
        value = bad[row]
        if chance.random() < 0.5:
            bad[row] = value[: len(value) * 2 // 3]
        else:
            bad[row] = value.replace(b'"quantity":', b'"quantity":"x","was":', 1)
    return bad
