"""Differential test against Kafka's own Java classes: they read what we write and write the same bytes, for every API and version.

Needs ``java`` (17 or later); the jar is fetched (``builds.definitions``).
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.compat import builds
from tests.property.wire.instances import all_layouts, random_bytes_of

from frazil.wire import APIS

ORACLE = Path(__file__).parent / "java-oracle" / "Oracle.java"
EACH = 8
_KEYS = {layouts.name: (api.key, kind) for api in APIS.values() for layouts, kind in zip(api.load(), ("request", "response"), strict=True)}
_KEYS |= {"ConsumerProtocolSubscription": (-1, "subscription"), "ConsumerProtocolAssignment": (-1, "assignment")}


def class_path() -> str:
    if shutil.which("java") is None:
        pytest.skip("no java here")
    return f"{builds.definitions().parent}/*"


def test_kafkas_java_classes_agree_byte_for_byte():
    path = class_path()
    chance = random.Random(43)
    cases = []
    for layouts, version in all_layouts():
        key, kind = _KEYS[layouts.name]
        cases += [(kind, key, version, random_bytes_of(layouts, version, chance)[1].hex(), layouts.name) for _ in range(EACH)]
    text = "".join(f"{kind} {key} {version} {data}\n" for kind, key, version, data, _ in cases)
    done = subprocess.run(["java", "-Xmx512m", "-cp", path, str(ORACLE)], input=text, capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(cases)
    wrong = [
        f"{name} v{version}: {answer[:200]}" for (_, _, version, data, name), answer in zip(cases, answers, strict=True) if answer != data
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)}: " + "; ".join(wrong[:10])
