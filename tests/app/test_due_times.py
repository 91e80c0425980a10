"""When a job is due: to the millisecond, by the backend's clock, whatever the time zone of the process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from leasemq import App, State
from leasemq.backends.memory import MemoryBackend
from leasemq.errors import NaiveDatetime
from leasemq.protocol.times import iso_utc
from leasemq.testing.manual_clock import ManualClock


@pytest.fixture
def app() -> App:
    """An app on a backend whose clock stands at New Year 2026."""
    return App(MemoryBackend(clock=ManualClock()))


@pytest.fixture
def task(app: App) -> Any:
    """A task of the app."""
    return app.task(name="t")(lambda: None)


@pytest.fixture(params=["UTC", "Asia/Kathmandu"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of the process."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.promise("P-31", "B36")
@pytest.mark.parametrize(
    ("delay", "due"),
    [
        (4_294_967.295, "2026-02-19T17:02:47.295Z"),
        (4_294_967.296, "2026-02-19T17:02:47.296Z"),
        (timedelta(days=60), "2026-03-02T00:00:00.000Z"),
        (timedelta(days=3_652), "2036-01-01T00:00:00.000Z"),
        (0, "2026-01-01T00:00:00.000Z"),
    ],
)
async def test_a_long_delay_is_kept_to_the_millisecond(task: Any, delay: Any, due: str) -> None:
    record = await (await task.options(delay=delay).enqueue()).record()
    assert iso_utc(record.due_ms) == due
    assert record.state is (State.SCHEDULED if delay else State.WAITING)


@pytest.mark.promise("P-31", "B37")
@pytest.mark.parametrize(
    ("moment", "due"),
    [
        (datetime(2026, 2, 1, 9, tzinfo=ZoneInfo("Asia/Kathmandu")), "2026-02-01T03:15:00.000Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2026-10-25T00:30:00.000Z"),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), "2026-10-25T01:30:00.000Z"),
        (datetime(2026, 2, 1, 9, 0, 0, 1, tzinfo=UTC), "2026-02-01T09:00:00.001Z"),
    ],
)
async def test_an_instant_is_the_same_under_every_time_zone(
    task: Any, zone: str, moment: datetime, due: str
) -> None:
    record = await (await task.options(due_at=moment).enqueue()).record()
    assert iso_utc(record.due_ms) == due


@pytest.mark.promise("P-31", "B37")
async def test_a_naive_instant_is_refused_under_every_time_zone_and_stores_nothing(
    app: App, task: Any, zone: str
) -> None:
    with pytest.raises(NaiveDatetime, match="2026-01-01T09:00"):
        await task.options(due_at=datetime(2026, 1, 1, 9)).enqueue()  # noqa: DTZ001  naive is the point
    assert await app.queues() == ()


@pytest.mark.promise("P-31", "B36")
async def test_an_instant_an_hour_ago_means_now(task: Any) -> None:
    past = datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert await (await task.options(due_at=past).enqueue()).state() is State.WAITING
