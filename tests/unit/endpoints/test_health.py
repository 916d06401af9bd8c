"""Health and metrics: what is said, in which format, and that a stall is named there within two intervals."""

from __future__ import annotations

import asyncio
import json
import re

import httpx
import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World

from frazil.assembly.health import health_served, kind_of, landing_report
from frazil.catalogs.faulty import FaultPlan
from frazil.endpoints.health import HealthPages, Metric, Report, Sample, Trouble, metrics_page
from frazil.endpoints.http import HttpRequest
from frazil.kit.errors import Refused
from frazil.kit.tasks import spawn
from frazil.metadata.landings import LandingSpec, put_landing

LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (-?[\d.]+)$')
"""A sample of the text format, as its page has it."""


def parsed(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by metric; an AssertionError for a line that is none."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            continue
        match = LINE.match(line)
        assert match is not None, line
        labels = dict(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', match.group(2) or ""))
        found.setdefault(match.group(1), []).append((labels, float(match.group(3))))
    return found


def test_metrics_are_prometheus_text_whatever_the_names_are() -> None:
    nasty = 'a "quoted" name\\with\nlines' + "x" * 1_000
    metric = Metric(name="frazil_x", about="something", samples=[Sample(value=1.5, labels={"table": nasty})] * 6_000)
    text = metrics_page(Report(process="landing", metrics=[metric]))
    found = parsed(text)
    assert found["frazil_healthy"] == [({}, 1)]
    assert len(found["frazil_x"]) == 5_000
    assert found["frazil_x"][0][0]["table"].startswith('a \\"quoted\\" name\\\\with\\nlines')
    assert "# TYPE frazil_x gauge" in text


def test_a_reason_as_a_label_makes_no_new_series_of_each_number() -> None:
    first = kind_of("the object lake/t/data/01ABC9.parquet was answered with 503 after 17 tries")
    assert first == kind_of("the object lake/u/data/01XYZ7.parquet was answered with 500 after 3 tries")
    assert len(kind_of("x" * 1_000)) == 120


def test_pages_and_nothing_else() -> None:
    async def story() -> None:
        pages = HealthPages(lambda: Report(process="landing", troubles=[Trouble(about="x.t", stage="commit", reason="no answer")]))

        async def status(method: str, *path: str) -> int:
            return (await pages.answer(HttpRequest(method=method, path=path))).status

        assert await status("GET", "healthz") == 503
        assert await status("GET", "metrics") == 200
        assert await status("GET", "") == 404
        assert await status("POST", "healthz") == 405

    run_virtual(story())


def test_f23_a_stall_is_in_health_and_metrics_within_two_intervals_and_leaves_them_after() -> None:
    async def story() -> None:
        world = World()
        for name in ("t", "u"):
            await world.topics.create(name, 1)
            await world.produce(name, [b'{"a":1}'])
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",), options={"catalog": "bad"}))
        bad = world.faulty_catalog(FaultPlan(rates={"C-5xx/n": 1.0}))
        landing = world.landing(FAST, catalogs={"default": world.catalog(), "bad": bad})
        pages = HealthPages(lambda: landing_report(landing, world.clock))
        task = spawn("landing", landing.run())

        async def health() -> tuple[int, list[dict[str, object]]]:
            answer = await pages.answer(HttpRequest(method="GET", path=("healthz",)))
            return answer.status, json.loads(answer.body)["troubles"]

        await asyncio.sleep(1.5)
        assert (await health())[0] == 200
        await asyncio.sleep(4)  # intervals of one second: four seconds are the least that counts as a stall
        status, troubles = await health()
        assert status == 503
        (trouble,) = troubles
        assert {**trouble, "reason": ""} == {
            "about": "x.t", "state": "stalled", "topic": "t", "partition": 0, "stage": "commit", "reason": "",
        }  # fmt: skip
        assert "C-5xx/n" in str(trouble["reason"])
        found = parsed((await pages.answer(HttpRequest(method="GET", path=("metrics",)))).body.decode())
        assert found["frazil_healthy"] == [({}, 0)]
        ((stall, _),) = found["frazil_table_stall"]
        assert (stall["table"], stall["topic"], stall["partition"], stall["stage"]) == ("x.t", "t", "0", "commit")
        lag = {labels["table"]: value for labels, value in found["frazil_table_lag_records"]}
        assert lag == {"default.u": 0, "x.t": 1}
        waiting = {labels["table"]: value for labels, value in found["frazil_table_oldest_waiting_seconds"]}
        assert waiting["x.t"] >= 4 and waiting["default.u"] == 0
        assert sum(value for labels, value in found["frazil_table_rows_landed_total"]) == 1
        bad._plan = FaultPlan()
        await asyncio.sleep(15)
        assert await health() == (200, [])
        landing.stop()
        await task

    run_virtual(story())


def test_a_landing_that_cannot_see_its_tables_is_not_healthy() -> None:
    async def story() -> None:
        world = World()
        await world.topics.create("t", 1)
        landing = world.landing()

        async def away(*_: object) -> object:
            raise Refused("the metadata store says no")

        landing._deps.topics.refresh = away  # type: ignore[method-assign,assignment]
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        report = landing_report(landing, world.clock)
        assert [(trouble.about, trouble.stage) for trouble in report.troubles] == [("landing", "discover")]
        landing.stop()
        await task

    run_virtual(story())


def test_served_on_loopback_and_a_taken_port_is_told_by_its_setting() -> None:
    async def story() -> None:
        report = Report(process="landing", metrics=[Metric(name="frazil_x", about="x", samples=[Sample(value=1)])])
        async with health_served("landing", "127.0.0.1", 0, lambda: report):
            pass  # not served
        probe = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = probe.sockets[0].getsockname()[1]
        with pytest.raises(Refused, match=r"landing\.http_port"):
            async with health_served("landing", "127.0.0.1", port, lambda: report):
                pass
        probe.close()
        await probe.wait_closed()
        async with health_served("landing", "127.0.0.1", port, lambda: report), httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/healthz")
            assert (answer.status_code, answer.json()["status"]) == (200, "ok")
            answer = await client.get(f"http://127.0.0.1:{port}/metrics")
            assert "frazil_x 1" in answer.text.splitlines()

    asyncio.run(story())
