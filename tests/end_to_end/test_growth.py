"""A worker does not grow: not from failures, and not from what they hold."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import Place
from tests.end_to_end.waiting import until

SLOTS = 10
CHUNK = 500
MIB = 1024 * 1024


def counted(place: Place) -> Mapping[str, int]:
    """What the only worker's process holds once it has forgotten the jobs that have ended."""

    def forgotten() -> Mapping[str, int] | None:
        found: Mapping[str, int] = task_of(place.app, "census").enqueue_sync().result_sync(timeout=30)
        return found if max(found["attempts"], found["leases"]) <= SLOTS + 5 else None

    return until(forgotten, "the worker holds no ended job")


def fail(place: Place, count: int, failed_before: int) -> None:
    """Have so many jobs fail."""
    burdened = task_of(place.app, "burdened")
    for start in range(0, count, CHUNK):
        burdened.enqueue_many_sync([(n,) for n in range(start, min(start + CHUNK, count))])
    until(lambda: place.counts().failed == failed_before + count, f"{count} jobs have failed", within_s=600)


def grow(place: Place, *, warm_up: int, count: int) -> None:
    """Compare a worker after so many failures with itself after the first of them."""
    worker = place.worker("A", concurrency=SLOTS, lease_s=30, is_ready=True)
    fail(place, warm_up, 0)
    before = counted(place)
    fail(place, count, warm_up)
    after = counted(place)
    print(f"after {warm_up}: {before}; after {count} more: {after}")

    assert worker.is_alive
    assert after["resident_bytes"] - before["resident_bytes"] <= 20 * MIB
    for what in ("descriptors", "tasks"):
        assert abs(after[what] - before[what]) <= 2
    assert place.counts().failed == warm_up + count


@pytest.mark.slow
@pytest.mark.promise("P-25", "B44")
def test_three_thousand_failures_leave_nothing_behind(place: Place) -> None:
    place.use(f"{place.url}?sync=normal")
    grow(place, warm_up=1_000, count=3_000)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("P-25", "B44")
def test_fifty_thousand_failures_leave_nothing_behind(place: Place) -> None:
    grow(place, warm_up=10_000, count=50_000)
