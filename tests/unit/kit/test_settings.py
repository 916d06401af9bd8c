"""Settings: sources in their order, and refusals that name setting, source and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from frazil.kit.errors import Refused
from frazil.kit.settings import Explained, Loaded, Sources, load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    port: int = setting(9092, "a port", least=0, most=65_535)
    ratio: float = setting(0.5, "a ratio", least=0)
    on: bool = setting(True, "a switch")
    key: str = setting("", "a secret", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    name: str = setting("x", "a name")
    inner: Inner = field(default_factory=Inner)


def loaded(
    file: Mapping[str, object] | None = None, variables: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> Loaded[Tree]:
    return load(Tree, Sources(file=file or {}, file_name="f.yaml", environment=variables or {}, flags=flags or {}))


def leaf(found: Loaded[Tree], name: str) -> Explained:
    return next(item for item in found.explained if item.name == name)


def test_later_sources_win_and_the_winner_is_named() -> None:
    file = {"inner": {"port": 1}}
    variables = {"FRAZIL_INNER_PORT": "2"}
    flags = {"inner.port": "3"}
    assert loaded().settings.inner.port == 9092
    found = [loaded(file), loaded(file, variables), loaded(file, variables, flags)]
    assert [item.settings.inner.port for item in found] == [1, 2, 3]
    assert [leaf(item, "inner.port").source for item in found] == ["f.yaml", "env FRAZIL_INNER_PORT", "flag"]
    assert leaf(loaded(), "inner.port").source == "default"


def test_a_dotted_name_in_the_file_is_the_same_setting() -> None:
    assert loaded({"inner.port": 7}).settings.inner.port == 7


def test_a_group_with_nothing_in_it_changes_nothing() -> None:
    assert loaded({"inner": None}).settings == Tree()
    with pytest.raises(Refused, match=r"f\.yaml: name must be text, not None"):
        loaded({"name": None})


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"inner": {"prot": 1}}, r"f\.yaml: unknown setting 'inner\.prot'; did you mean 'inner\.port'\?"),
        ({"zzzzzzzz": 1}, "`frazil config explain` lists all settings"),
        ({"inner": 3}, "'inner' is a group of settings; write 'inner.port'"),
        ({"inner": {"port": "abc"}}, r"f\.yaml: inner\.port must be a whole number, not 'abc'"),
        ({"inner": {"port": 1.5}}, "a whole number"),
        ({"inner": {"port": True}}, "a whole number"),
        ({"inner": {"port": -1}}, "at least 0, not -1"),
        ({"inner": {"port": 65_536}}, "at most 65535, not 65536"),
        ({"inner": {"on": "maybe"}}, "true or false, not 'maybe'"),
        ({"inner": {"ratio": "x"}}, "a number"),
        ({"name": [1]}, "name must be text"),
    ],
)
def test_what_is_wrong_in_the_file_is_refused_by_name(file: Mapping[str, object], words: str) -> None:
    with pytest.raises(Refused, match=words):
        loaded(file)


def test_wrong_variables_and_flags_are_refused_by_name() -> None:
    with pytest.raises(Refused, match="unknown variable FRAZIL_INNER_PROT; did you mean 'FRAZIL_INNER_PORT'"):
        loaded(variables={"FRAZIL_INNER_PROT": "1"})
    with pytest.raises(Refused, match=r"variable FRAZIL_INNER_PORT: inner\.port must be a whole number, not ''"):
        loaded(variables={"FRAZIL_INNER_PORT": ""})
    with pytest.raises(Refused, match=r"flag: unknown setting 'inner\.prot'"):
        loaded(flags={"inner.prot": "1"})
    assert loaded(variables={"PATH": "/bin", "FRAZIL_CONFIG": "f.yaml"}).settings == Tree()


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("ON", True), ("1", True), ("no", False), ("Off", False), (" 0 ", False)])
def test_switches_are_read_as_people_write_them_and_shown_as_yaml(text: str, value: bool) -> None:
    found = loaded(flags={"inner.on": text})
    assert found.settings.inner.on is value
    assert leaf(found, "inner.on").value == str(value).lower()


def test_a_secret_is_never_shown() -> None:
    found = loaded(flags={"inner.key": "hunter2"})
    assert found.settings.inner.key == "hunter2"
    assert "hunter2" not in repr(found.explained)
    assert leaf(found, "inner.key").value == "********"
    assert leaf(loaded(), "inner.key").value == ""


@pytest.mark.parametrize("value", [["hunter2"], {"hunter2": 1}, None])
def test_a_secret_of_a_wrong_type_is_not_repeated(value: object) -> None:
    with pytest.raises(Refused) as caught:
        loaded({"inner": {"key": value}})
    assert "inner.key" in str(caught.value)
    if value != {"hunter2": 1}:  # a key is a name, and unknown names are repeated
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["rest+https://me:hunter2@host/x", "postgres://hunter2@host", "https://me:hunter2@"])
def test_user_and_password_in_an_address_are_not_shown(address: str) -> None:
    found = leaf(loaded(flags={"name": address}), "name").value
    assert "hunter2" not in found
    assert found.partition("://")[0] == address.partition("://")[0]


@pytest.mark.parametrize("text", ["s3://bucket/a@b", "file:///a@b/c", "me@host"])
def test_an_at_sign_outside_of_an_authority_is_shown(text: str) -> None:
    assert leaf(loaded(flags={"name": text}), "name").value == text
