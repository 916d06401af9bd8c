"""Avro and JSON by schema id through real processes: a registry behind TLS and a password, a librdkafka producer, the table by SQL."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
import ssl
import time
from collections.abc import Callable

import confluent_kafka
import pytest
import trustme
from tests.compat.process import Processes, frazil
from tests.standins.schema_registry import SchemaRegistry, reply
from tests.unit.schemas.avro_cases import framed

pytestmark = [pytest.mark.server]

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def until(holds: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.3)


def ask(data: list[str], query: str) -> object:
    done = frazil(*data, "sql", query, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_from_producer_to_table_with_a_registry_that_comes_and_goes(tmp_path: pathlib.Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    registry = SchemaRegistry(prefix="/apis/ccompat/v7", basic_auth="me:secret-word", context=context)
    orders = registry.register("orders-value", ORDER)
    clicks = registry.register("clicks-value", {"properties": {"n": {"type": "number"}}}, kind="JSON")
    registry.fault = lambda _: reply(503, {})
    settings = [f"registry.url={registry.url}", "registry.basic_auth=me:secret-word", f"registry.ca_file={tmp_path / 'ca.pem'}"]
    with Processes(tmp_path, settings=settings) as processes:
        processes.start("dev")
        data = ["-d", str(tmp_path / "data")]
        for table, topic, value in (("shop.orders", "orders", "avro"), ("shop.clicks", "clicks", "json-schema")):
            assert frazil(*data, "-b", processes.bootstrap, "topic", "create", topic).returncode == 0
            done = frazil(*data, "table", "create", table, "-t", topic, "--value", value, "--commit-interval-ms", "1000")
            assert done.returncode == 0, done.stderr
        producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap})
        at = datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
        for number in range(100):
            producer.produce("orders", framed(orders, ORDER, {"id": number, "price": decimal.Decimal(number) / 4, "placed": at}))
            producer.produce("clicks", b"\0" + clicks.to_bytes(4, "big") + json.dumps({"n": number}).encode())
        producer.produce("orders", framed(999, "long", 5))
        assert producer.flush(20) == 0
        until(lambda: "registry" in frazil(*data, "land", "status").stdout)
        registry.fault = lambda _: None
        for table in ("shop.orders", "shop.clicks"):
            done = frazil(*data, "-b", processes.bootstrap, "land", "wait", table, "--timeout", "60", timeout_s=90)
            assert done.returncode == 0, done.stderr
        found = ask(data, "SELECT count(*) AS n, sum(price)::text AS p, min(epoch(placed)) AS t FROM shop.orders")
        assert found == {"n": 100, "p": "1237.50", "t": -1.0}
        found = ask(data, "SELECT count(*) AS n, sum(n) AS s, any_value(typeof(n)) AS k FROM shop.clicks")
        assert found == {"n": 100, "s": 4950.0, "k": "DOUBLE"}
        assert ask(data, "SELECT code FROM shop.orders_dead") == {"code": "unknown-schema"}
        assert "secret-word" not in (tmp_path / "dev.log").read_text()
    registry.close()
