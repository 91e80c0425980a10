"""The door between public times (seconds, timedelta, datetime) and integer milliseconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from leasemq.errors import InvalidDelay, InvalidSetting, NaiveDatetime
from leasemq.protocol.names import shown_value

MAX_DURATION_MS = 36_525 * 86_400_000  # 100 years: what is due then still lies inside datetime's range
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def seconds_to_ms(value: float | timedelta, name: str = "delay") -> int:
    """Answer a duration in milliseconds, rounded to the nearest; 0 to 100 years.

    Raises: InvalidDelay (a ValueError) for anything else: negative, NaN, infinite, bool, text.
    """
    duration_ms = _rounded_ms(value)
    if isinstance(duration_ms, str):
        raise InvalidDelay(
            f"{name}={shown_value(value)} {duration_ms}; use seconds or a timedelta, 0 to 100 years"
        )
    return duration_ms


def positive_seconds_to_ms(value: float | timedelta, name: str) -> int:
    """Answer a setting's duration in milliseconds, at least 1.

    Raises: InvalidSetting (a ValueError) for anything that is not 1 ms to 100 years.
    """
    duration_ms = _rounded_ms(value)
    if duration_ms == 0:
        duration_ms = "is less than a millisecond"
    if isinstance(duration_ms, str):
        raise InvalidSetting(
            f"{name}={shown_value(value)} {duration_ms}; use seconds or a timedelta, 0.001 s to 100 years"
        )
    return duration_ms


def debounced_ms(now_ms: int, window_ms: int, created_ms: int, at_most_ms: int | None) -> int:
    """Answer when a debounced job is due: a window from now, but no later than `at_most_ms` allows."""
    quiet_ms = now_ms + window_ms
    return quiet_ms if at_most_ms is None else max(now_ms, min(quiet_ms, created_ms + at_most_ms))


def due_at_ms(moment: datetime) -> int:
    """Answer an aware datetime as milliseconds since the epoch, `fold` respected; negative before 1970.

    A fraction of a millisecond rounds up, so that nothing is due early.

    Raises: NaiveDatetime (a ValueError) without a time zone, InvalidDelay for what is no datetime.
    """
    if not isinstance(moment, datetime):
        raise InvalidDelay(f"a due time is a datetime with a time zone, not {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise NaiveDatetime(
            f"{moment.isoformat()} has no time zone, so it names no instant; "
            "give it one: datetime.now(UTC), or value.replace(tzinfo=ZoneInfo(...))"
        )
    return -((_EPOCH - moment) // _MILLISECOND)


def iso_utc(instant_ms: int) -> str:
    """Answer an instant as ISO 8601 in UTC, always with milliseconds, so that texts sort as times do.

    What lies outside datetime's range is shown as a number of milliseconds.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=instant_ms)
    except OverflowError:
        return f"{instant_ms} ms"
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _rounded_ms(value: float | timedelta) -> int | str:
    """Answer the milliseconds, or what is wrong with the value."""
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        return f"is a {type(value).__name__}"
    if isinstance(value, float) and not math.isfinite(value):
        return "is not finite"
    if isinstance(value, timedelta):
        is_negative, duration_ms = value < timedelta(0), round(value / _MILLISECOND)
    elif value < 0:
        is_negative, duration_ms = True, 0
    else:  # cut first: a huge int times 1,000 can be neither a float nor printed
        is_negative, duration_ms = False, round(min(value, MAX_DURATION_MS) * 1000)
    if is_negative:
        return "is negative"
    return "is over 100 years" if duration_ms > MAX_DURATION_MS else duration_ms
