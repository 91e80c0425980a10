"""Seconds, timedeltas and datetimes at the public door; milliseconds inside."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import InvalidDelay, InvalidSetting, NaiveDatetime
from leasemq.protocol.times import (
    MAX_DURATION_MS,
    due_at_ms,
    iso_utc,
    positive_seconds_to_ms,
    seconds_to_ms,
)

WESTMOST = timezone(-timedelta(hours=12))
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


@pytest.mark.promise("P-31", "B36")
@pytest.mark.parametrize(
    ("delay", "due"),
    [
        (4_294_967.295, "2026-02-19T17:02:47.295Z"),
        (4_294_967.296, "2026-02-19T17:02:47.296Z"),
        (timedelta(days=60), "2026-03-02T00:00:00.000Z"),
        (60 * 86_400, "2026-03-02T00:00:00.000Z"),
        (timedelta(days=3_652), "2036-01-01T00:00:00.000Z"),
        (0, "2026-01-01T00:00:00.000Z"),
        (0.0, "2026-01-01T00:00:00.000Z"),
        (-0.0, "2026-01-01T00:00:00.000Z"),
    ],
)
def test_a_delay_is_exact_to_the_millisecond(delay: float | timedelta, due: str) -> None:
    assert iso_utc(START_MS + seconds_to_ms(delay)) == due


@pytest.mark.promise("P-31", "B36")
@pytest.mark.parametrize(
    "delay",
    [
        -5,
        -0.0001,
        -timedelta(microseconds=1),
        1e12,
        1e308,
        10**400,
        -(10**5_000),
        timedelta.max,
        timedelta(days=36_525, milliseconds=1),
        math.inf,
        -math.inf,
        math.nan,
        True,
        "5",
        None,
        [1],
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_absurd_delay_is_a_value_error_that_names_it(delay: object) -> None:
    with pytest.raises(InvalidDelay, match=r"^delay=.* 0 to 100 years$") as refused:
        seconds_to_ms(delay)  # type: ignore[arg-type]  # the mistakes under test

    assert isinstance(refused.value, ValueError)


@pytest.mark.promise("P-31")
def test_a_hundred_years_are_accepted_and_stay_inside_datetime() -> None:
    assert seconds_to_ms(timedelta(days=36_525)) == MAX_DURATION_MS
    assert iso_utc(START_MS + MAX_DURATION_MS).startswith("2126-")


@pytest.mark.promise("P-31")
@given(st.integers(0, MAX_DURATION_MS))
def test_whole_milliseconds_survive_as_seconds_and_as_timedelta(duration_ms: int) -> None:
    assert seconds_to_ms(timedelta(milliseconds=duration_ms)) == duration_ms
    assert seconds_to_ms(duration_ms / 1000) == duration_ms


@pytest.mark.promise("P-31")
@given(st.integers() | st.floats() | st.timedeltas())
def test_any_number_is_in_range_or_refused(value: float | timedelta) -> None:
    try:
        assert 0 <= seconds_to_ms(value) <= MAX_DURATION_MS
    except InvalidDelay:
        assert value != 0


@pytest.mark.promise("P-18")
@pytest.mark.parametrize("value", [0, 0.0004, timedelta(0), -1, math.nan, math.inf, True, "30", 1e12])
def test_a_bad_setting_is_refused_by_name_and_value(value: object) -> None:
    with pytest.raises(InvalidSetting, match=r"^lease=") as refused:
        positive_seconds_to_ms(value, "lease")  # type: ignore[arg-type]  # the mistakes under test

    assert repr(value) in str(refused.value)


@pytest.mark.promise("P-18")
def test_a_good_setting_is_milliseconds() -> None:
    assert positive_seconds_to_ms(30, "lease") == 30_000
    assert positive_seconds_to_ms(0.001, "lease") == 1
    assert positive_seconds_to_ms(timedelta(seconds=2), "lease") == 2_000


@pytest.mark.promise("P-31", "B37")
@pytest.mark.parametrize(
    ("moment", "due"),
    [
        (datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Asia/Kathmandu")), "2026-01-01T03:15:00.000Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=0), "2026-10-25T00:30:00.000Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1), "2026-10-25T01:30:00.000Z"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), "-62135647200000 ms"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=WESTMOST), "253402344000000 ms"),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "1969-12-31T23:59:59.000Z"),
    ],
)
def test_a_due_time_is_the_instant_it_names(moment: datetime, due: str) -> None:
    assert iso_utc(due_at_ms(moment)) == due


@pytest.mark.promise("P-31", "B37")
def test_a_naive_due_time_is_a_value_error_with_the_remedy() -> None:
    with pytest.raises(NaiveDatetime, match=r"2026-01-01T09:00:00 has no time zone.*ZoneInfo") as refused:
        due_at_ms(datetime(2026, 1, 1, 9))  # noqa: DTZ001  # the mistake under test

    assert isinstance(refused.value, ValueError)


@pytest.mark.promise("P-31")
def test_a_date_is_no_due_time() -> None:
    with pytest.raises(InvalidDelay, match="not date"):
        due_at_ms(date(2026, 1, 1))  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.promise("P-31")
def test_a_fraction_of_a_millisecond_is_never_due_early() -> None:
    assert due_at_ms(datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)) == START_MS + 1


@pytest.mark.promise("P-31", "B37")
@given(st.datetimes(timezones=st.timezones(), allow_imaginary=False))
def test_a_due_time_lies_within_a_millisecond_of_its_moment(moment: datetime) -> None:
    late = timedelta(milliseconds=due_at_ms(moment)) - (moment - datetime(1970, 1, 1, tzinfo=UTC))

    assert timedelta(0) <= late < timedelta(milliseconds=1)


@given(st.integers(-(10**20), 10**20))
def test_any_instant_can_be_shown(instant_ms: int) -> None:
    assert iso_utc(instant_ms)


def test_shown_instants_sort_as_they_follow() -> None:
    instants = [START_MS - 1, START_MS, START_MS + 5, START_MS + 1_000]

    assert sorted(map(iso_utc, instants)) == [iso_utc(instant) for instant in instants]
