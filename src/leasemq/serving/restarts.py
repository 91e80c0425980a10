"""When a worker process that ended is started again: decided here, from numbers alone."""

from __future__ import annotations

FIRST_MS = 250
LONGEST_MS = 30_000
STABLE_MS = 60_000  # who lived so long is started again as if for the first time


def deaths_in_a_row(before: int, lived_ms: int) -> int:
    """Answer how many quick deaths there were in a row, with the one after `lived_ms`."""
    return 1 if lived_ms >= STABLE_MS else before + 1


def restart_in_ms(deaths: int, roll: float) -> int:
    """Answer how long to wait: twice as long after each quick death, up to half a minute.

    Args:
        deaths: quick ones in a row, from 1.
        roll: from 0 to 1; by it the wait is up to half as long, so that processes do not start in step.
    """
    longest_ms = min(LONGEST_MS, FIRST_MS * 2 ** min(deaths - 1, 10))
    return int(longest_ms * (1 - roll / 2))
