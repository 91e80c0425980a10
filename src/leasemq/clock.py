"""The only module that reads a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_ms() -> int:
    """Answer the host's wall clock, ms since the epoch; the store's clock of memory and SQLite."""
    return time.time_ns() // 1_000_000


def boot_ms() -> int:
    """Answer a clock that never steps and counts suspension (CLOCK_BOOTTIME), for local deadlines."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
