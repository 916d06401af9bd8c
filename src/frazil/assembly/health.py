"""What broker and landing tell about themselves over HTTP: their numbers as metrics, their troubles as health."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from frazil.broker import Broker
from frazil.endpoints.health import HealthPages, Metric, Report, Sample, Trouble
from frazil.endpoints.http import HttpServer
from frazil.kit.clock import Clock
from frazil.kit.errors import Refused
from frazil.landing import Landing
from frazil.landing.gauges import TableGauge
from frazil.log.index import LogIndex
from frazil.metadata.landings import STATES

_LOG = logging.getLogger("frazil.health")
_ILL = ("failed", "stalled")
_PARTICULARS = re.compile(r"[\w./:-]*\d[\w./:-]*")
_REASON_CHARACTERS_MAX = 120


@asynccontextmanager
async def health_served(process: str, host: str, port: int, look: Callable[[], Report]) -> AsyncIterator[None]:
    """Serves /healthz and /metrics for as long as this is open; port 0: does not. Raises Refused when the port cannot be had."""
    if port == 0:
        yield
        return
    server = HttpServer(HealthPages(look).answer)
    try:
        await server.start(host, port)
    except OSError as error:
        raise Refused(
            f"health of {process}: port {port} of {host} cannot be had ({error.strerror}); set another with {process}.http_port, 0 for none"
        ) from error
    _LOG.info("health and metrics of %s on http://%s:%d", process, host, server.port)
    try:
        yield
    finally:
        await server.close()


def landing_report(landing: Landing, clock: Clock) -> Report:
    """A table is in trouble when it failed, or when it stands still for two intervals."""
    gauges = landing.gauges()
    troubles = [
        Trouble(
            about=gauge.status.table,
            state=gauge.status.state,
            topic=gauge.status.topic,
            partition=gauge.status.partition,
            stage=gauge.status.stage,
            reason=gauge.status.reason,
        )
        for gauge in gauges
        if gauge.status.state == "failed" or (gauge.status.state == "stalled" and gauge.overdue)
    ]
    if (blind := landing.blind()) is not None:
        troubles.insert(0, Trouble(about="landing", stage="discover", reason=blind, state="stalled"))
    return Report(process="landing", troubles=troubles, metrics=_table_metrics(gauges, clock))


def _table_metrics(gauges: Sequence[TableGauge], clock: Clock) -> list[Metric]:
    def each(value: Callable[[TableGauge], float]) -> list[Sample]:
        return [Sample(value=value(gauge), labels={"table": gauge.status.table}) for gauge in gauges]

    states = [
        Sample(value=int(gauge.status.state == state), labels={"table": gauge.status.table, "state": state})
        for gauge in gauges
        for state in STATES
    ]
    stalls = [
        Sample(
            value=1,
            labels={
                "table": gauge.status.table,
                "topic": gauge.status.topic,
                "partition": str(gauge.status.partition),
                "stage": gauge.status.stage,
                "reason": kind_of(gauge.status.reason),
            },
        )
        for gauge in gauges
        if gauge.status.state in _ILL
    ]
    return [
        Metric(name="frazil_table_state", about="1 for the state a table is in", samples=states),
        Metric(name="frazil_table_stall", about="1 for a table that stands still: where and why", samples=stalls),
        Metric(name="frazil_table_oldest_waiting_seconds", about="age of the oldest record that is not in the table; 0: none waits",
               samples=each(lambda gauge: gauge.status.freshness_ms / 1000)),
        Metric(name="frazil_table_lag_records", about="records of the log that are not in the table",
               samples=each(lambda gauge: gauge.status.behind_records)),
        Metric(name="frazil_table_rows_landed_total", about="rows committed by this process", kind="counter",
               samples=each(lambda gauge: gauge.status.rows_landed)),
        Metric(name="frazil_table_dead_letters_total", about="records put among the dead letters by this process", kind="counter",
               samples=each(lambda gauge: gauge.status.rows_rejected)),
        Metric(name="frazil_table_commit_seconds", about="time the last commit took",
               samples=each(lambda gauge: gauge.commit_took_ms / 1000)),
        Metric(name="frazil_table_last_commit_timestamp_seconds", about="when this process last committed; 0: not yet",
               samples=each(lambda gauge: gauge.status.last_commit_ms / 1000)),
        Metric(name="frazil_time_seconds", about="this process's clock", samples=[Sample(value=clock.now_ms() / 1000)]),
    ]  # fmt: skip


def kind_of(reason: str) -> str:
    """A reason as a label value: without numbers and names of objects, which would make a new series of each, and short."""
    return _PARTICULARS.sub("…", reason)[:_REASON_CHARACTERS_MAX]


def broker_report(broker: Broker, index: LogIndex, unanswered: int) -> Report:
    """A broker is in trouble when its log has a hole; what it cannot reach it answers its clients with."""
    counters = broker.counters

    def by_api(value: Callable[[str], float]) -> list[Sample]:
        return [Sample(value=value(name), labels={"api": name}) for name in sorted(counters.apis)]

    metrics = [
        Metric(name="frazil_broker_requests_total", about="requests by API", kind="counter",
               samples=by_api(lambda name: counters.apis[name].requests)),
        Metric(name="frazil_broker_errors_total", about="requests answered with an error, or not at all", kind="counter",
               samples=by_api(lambda name: counters.apis[name].errors)),
        Metric(name="frazil_broker_received_bytes_total", about="bytes of requests", kind="counter",
               samples=by_api(lambda name: counters.apis[name].bytes_in)),
        Metric(name="frazil_broker_sent_bytes_total", about="bytes of answers", kind="counter",
               samples=by_api(lambda name: counters.apis[name].bytes_out)),
        Metric(name="frazil_broker_request_seconds_total", about="time in requests", kind="counter",
               samples=by_api(lambda name: counters.apis[name].latency_ms_sum / 1000)),
        Metric(name="frazil_broker_connections", about="open connections", samples=[Sample(value=counters.connections_open)]),
        Metric(name="frazil_broker_connections_refused_total", about="connections refused", kind="counter",
               samples=[Sample(value=counters.connections_refused)]),
        Metric(name="frazil_broker_frames_malformed_total", about="frames that were none", kind="counter",
               samples=[Sample(value=counters.frames_malformed)]),
        Metric(name="frazil_broker_produce_unanswered", about="produce requests whose records are not yet in the log",
               samples=[Sample(value=unanswered)]),
    ]  # fmt: skip
    troubles = [Trouble(about="log", stage="read", reason=why) for why in index.troubles()]
    return Report(process="broker", troubles=troubles, metrics=metrics)
