"""Health and numbers of one process over HTTP: ``/healthz`` for who restarts or pages, ``/metrics`` in Prometheus' text format 0.0.4.

What is told is asked for at each request; nothing is kept here. Names of tables are the only label values without a fixed list, and at
most ``SERIES_MAX`` lines of one metric are given: a landing of a hundred thousand tables must not become the scraper's trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from frazil.endpoints.http import HttpRequest, HttpResponse, json_response

SERIES_MAX: Final = 5_000
LABEL_CHARACTERS_MAX: Final = 200
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of a metric."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: what it means, in which unit its name says, and its values."""

    name: str
    about: str
    samples: Sequence[Sample]
    kind: Literal["gauge", "counter"] = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a process is not healthy: what it concerns, the stage it stands in, and the reason in words."""

    about: str
    stage: str
    reason: str
    state: str = "failed"
    topic: str = ""
    partition: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a process is doing now. No trouble is health."""

    process: str
    troubles: Sequence[Trouble] = ()
    metrics: Sequence[Metric] = ()


class HealthPages:
    """Answers ``GET /healthz`` (200, or 503 with every trouble named) and ``GET /metrics``."""

    def __init__(self, look: Callable[[], Report]) -> None:
        self._look = look

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """See the class."""
        if request.method not in ("GET", "HEAD"):
            return json_response(405, {"message": "only GET"})
        match request.path:
            case ("healthz",):
                return health_page(self._look())
            case ("metrics",):
                return HttpResponse(status=200, body=metrics_page(self._look()).encode(), content_type=TEXT)
        return json_response(404, {"message": "there are /healthz and /metrics"})


def health_page(report: Report) -> HttpResponse:
    """The answer of ``/healthz``."""
    troubles = [
        {
            "about": trouble.about,
            "state": trouble.state,
            "topic": trouble.topic,
            "partition": trouble.partition,
            "stage": trouble.stage,
            "reason": trouble.reason,
        }
        for trouble in report.troubles
    ]
    status = "not ok" if troubles else "ok"
    return json_response(503 if troubles else 200, {"status": status, "process": report.process, "troubles": troubles[:SERIES_MAX]})


def metrics_page(report: Report) -> str:
    """The text of ``/metrics``. ``frazil_healthy`` says what ``/healthz`` says."""
    healthy = Metric(name="frazil_healthy", about="1: /healthz answers ok", samples=[Sample(value=0 if report.troubles else 1)])
    lines: list[str] = []
    for metric in (healthy, *report.metrics):
        lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [_line(metric.name, sample) for sample in metric.samples[:SERIES_MAX]]
    return "\n".join(lines) + "\n"


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escape(value)}"' for label, value in sample.labels.items())
    value = int(sample.value) if float(sample.value).is_integer() else sample.value
    return f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def _escape(value: str) -> str:
    """As the exposition format wants label values: backslash, quote and line feed escaped."""
    return value[:LABEL_CHARACTERS_MAX].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
