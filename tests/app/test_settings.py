"""Settings: which source wins, what is refused, what is shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from leasemq import App
from leasemq.errors import InvalidName, InvalidSetting
from leasemq.protocol.model import DAY_MS, Keep
from leasemq.settings import Origin, Project, find_settings, read_project


def found(arguments: dict[str, object], table: dict[str, object] | None = None, **environment: str) -> Any:
    """The settings of these three sources."""
    return find_settings(arguments, Project(path="pyproject.toml", table=table or {}), environment)


@pytest.mark.promise("A-41")
def test_an_argument_wins_over_the_environment_which_wins_over_pyproject_which_wins_over_the_default() -> (
    None
):
    table: dict[str, object] = {"lease": 20, "drain": 5, "concurrency": 7}
    settings, origins = found({"lease": 40}, table, LEASEMQ_LEASE="30", LEASEMQ_DRAIN="6")
    assert (settings.lease_ms, settings.drain_ms, settings.concurrency) == (40_000, 6_000, 7)
    assert settings.payload_limit == 1024 * 1024
    sources = {origin.name: origin.source for origin in origins}
    assert sources["lease"] == "argument"
    assert sources["drain"] == "LEASEMQ_DRAIN"
    assert sources["concurrency"] == "pyproject.toml"
    assert sources["payload_limit"] == "default"


@pytest.mark.promise("A-41")
def test_lists_are_read_from_a_list_and_from_names_separated_by_commas() -> None:
    assert found({}, LEASEMQ_QUEUES="mail, sms,push")[0].queues == ("mail", "sms", "push")
    assert found({}, {"queues": ["mail", "a,b"]})[0].queues == ("mail", "a,b")


@pytest.mark.promise("A-41")
def test_two_configurations_live_in_one_process() -> None:
    first, second = App("memory://", lease=5), App("sqlite:///x.db", lease=timedelta(seconds=9))
    assert (first.settings.lease_ms, second.settings.lease_ms) == (5_000, 9_000)
    assert (first.settings.url, second.settings.url) == ("memory://", "sqlite:///x.db")


@pytest.mark.promise("P-18")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease", 0),
        ("lease", -1),
        ("lease", float("nan")),
        ("lease", float("inf")),
        ("lease", True),
        ("lease", "soon"),
        ("drain", -1),
        ("concurrency", 0),
        ("concurrency", 1_001),
        ("concurrency", 1.5),
        ("concurrency", True),
        ("payload_limit", 0),
        ("payload_limit", 17 * 1024 * 1024),
        ("require_durability", "D9"),
        ("queues", []),
        ("queues", 3),
        ("keep_result", -1),
        ("keep_newest", 0),
        ("keep_newest", 1.5),
        ("keep_newest", "all"),
        ("url", 3),
    ],
)
def test_a_bad_value_is_refused_naming_the_setting_and_the_value(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        found({name: value})


def test_a_bad_value_names_the_variable_or_the_file_that_it_is_from() -> None:
    with pytest.raises(InvalidSetting, match=r"LEASEMQ_CONCURRENCY: concurrency='many'"):
        found({}, LEASEMQ_CONCURRENCY="many")
    with pytest.raises(InvalidSetting, match="keep_events='3d' is not a number of seconds, such as 3600"):
        found({}, LEASEMQ_KEEP_EVENTS="3d")
    with pytest.raises(InvalidSetting, match=r"pyproject.toml: lease='long'"):
        found({}, {"lease": "long"})


def test_a_wrong_argument_is_refused_where_the_app_is_made() -> None:
    with pytest.raises(InvalidSetting, match="lease"):
        App("memory://", lease=0)
    with pytest.raises(InvalidName, match="namespace"):
        App("memory://", namespace="a\nb")
    with pytest.raises(TypeError, match="leese"):
        App("memory://", leese=3)  # type: ignore[call-arg]  # the misspelling is the point
    with pytest.raises(InvalidSetting, match=r"retry=3.*Retry\(max_retries=3\)"):
        App("memory://", retry=3)  # type: ignore[arg-type]  # a number is the point


def test_pyproject_is_the_nearest_one_upwards(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / "pyproject.toml").write_text('[tool.leasemq]\nurl = "sqlite:///here.db"\n')
    project = read_project(inner)
    assert project.table == {"url": "sqlite:///here.db"}
    assert project.path == str(tmp_path / "outer" / "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[tool.leasemq]\nurll = 'x'\n", "urll"),
        ("[tool]\nleasemq = 3\n", "not a table"),
        ("[tool.leasemq\n", "cannot be read"),
    ],
)
def test_a_pyproject_that_makes_no_sense_is_refused_naming_the_file(
    tmp_path: Path, text: str, fault: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InvalidSetting, match=fault) as refused:
        read_project(tmp_path)
    assert str(tmp_path / "pyproject.toml") in str(refused.value)


def test_a_project_without_our_table_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_project(tmp_path).table == {}


@pytest.mark.promise("P-102")
def test_the_password_of_a_url_is_never_shown() -> None:
    _, origins = found({}, LEASEMQ_URL="redis://user:hunter2@host/0")
    shown = next(origin for origin in origins if origin.name == "url")
    assert shown == Origin(name="url", value="redis://user:***@host/0", source="LEASEMQ_URL")


def test_the_environment_is_read_when_the_app_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    monkeypatch.setenv("LEASEMQ_URL", "sqlite:///later.db")
    assert app.settings.url == "sqlite:///later.db"


@pytest.mark.promise("P-60")
def test_a_record_outlives_its_result_by_a_day_unless_it_is_set_to_less() -> None:
    assert found({"keep_result": 60})[0].keep == Keep(result_ms=60_000, record_ms=60_000 + DAY_MS)
    assert found({"keep_result": 60, "keep_record": 30})[0].keep.record_ms == 30_000
    assert found({})[0].keep == Keep()


@pytest.mark.promise("P-62", "E-30")
async def test_events_are_kept_a_week_or_as_long_as_the_app_says() -> None:
    kept = []
    for app in (App("memory://"), App("memory://", keep_events=timedelta(hours=1))):
        app.task(name="t")(sorted)
        async with app:
            kept.append(app.worker().settings.event_age_ms)

    assert kept == [7 * 24 * 3_600_000, 3_600_000]
    assert App("memory://", keep_events=90).settings.keep_events_ms == 90_000


@pytest.mark.promise("A-34", "P-43")
async def test_a_million_records_of_each_outcome_are_kept_or_as_many_as_the_app_says() -> None:
    kept = []
    for app in (App("memory://"), App("memory://", keep_newest=5_000)):
        app.task(name="t")(sorted)
        async with app:
            kept.append(app.worker().settings.keep_newest)

    assert kept == [1_000_000, 5_000]
    assert found({}, LEASEMQ_KEEP_NEWEST="100")[0].keep_newest == 100
    assert found({}, {"keep_newest": 7})[0].keep_newest == 7


async def test_an_app_without_a_url_says_what_to_do() -> None:
    with pytest.raises(InvalidSetting, match=r"sqlite:///jobs.db.*LEASEMQ_URL.*pyproject"):
        await App().prepare()
