"""Bounded waits for a condition: the only way these tests let time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_EVERY_S = 0.01
PATIENCE_S = 30.0  # how long a thing that ought to happen soon may take on a busy machine

T = TypeVar("T")


def until(found: Callable[[], T | None], what: str, within_s: float = PATIENCE_S) -> T:
    """Answer the first truthy value of `found`; fail naming `what` after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        if value := found():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}")
        time.sleep(LOOK_EVERY_S)


def never(found: Callable[[], object], what: str, for_s: float) -> None:
    """Fail naming `what` if `found` is truthy at any look within `for_s`."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        if value := found():
            raise AssertionError(f"{what}: {value!r}")
        time.sleep(LOOK_EVERY_S)
