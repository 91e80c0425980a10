"""A whole queue is deleted in steps: nobody else waits for all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leasemq.backends.sqlite import SqliteBackend, sweeping
from leasemq.backends.sqlite.step import Step
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.conftest import Peek

LEASE_MS = 30_000


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of two jobs."""
    monkeypatch.setattr(sweeping, "_PART", 2)


@pytest.fixture
def between(backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have something happen after each of the backend's first steps."""

    def plant(*happens: Callable[[], Any]) -> None:  # Any: whatever it answers
        left, write = list(happens), backend._write

        async def followed(work: Callable[[Step], Any]) -> Any:  # Any: whatever the step answers
            answer = await write(work)
            if left:
                happening = left.pop(0)
                with monkeypatch.context() as undone:
                    undone.setattr(backend, "_write", write)
                    await happening()
            return answer

        monkeypatch.setattr(backend, "_write", followed)

    return plant


@pytest.mark.promise("P-53", "P-64")
async def test_each_step_deletes_a_bounded_number_and_the_total_is_answered(
    backend: SqliteBackend, peek: Peek, between: Callable[..., None]
) -> None:
    await backend.enqueue("mail", [builders.new_job(f"j{number}") for number in range(5)])
    left: list[int] = []

    async def count() -> None:
        left.append((await peek("SELECT count(*) FROM leasemq_job"))[0][0])

    between(count, count, count)

    assert await backend.obliterate("mail", force=False) == 5
    assert left == [3, 1, 0]
    assert (await backend.counts("mail")).removed == 5


@pytest.mark.promise("P-53")
@pytest.mark.parametrize(("force", "removed"), [(True, 5), (False, 4)])
async def test_a_job_claimed_between_two_steps_goes_only_with_force(
    backend: SqliteBackend, between: Callable[..., None], force: bool, removed: int
) -> None:
    await backend.enqueue("mail", [builders.new_job(f"j{number}") for number in range(5)])
    between(lambda: backend.claim("mail", 1, LEASE_MS, builders.claimant()))

    assert await backend.obliterate("mail", force=force) == removed
    assert (await backend.counts("mail")).active == 5 - removed


@pytest.mark.promise("P-53")
async def test_what_is_accepted_between_two_steps_stays(
    backend: SqliteBackend, between: Callable[..., None]
) -> None:
    await backend.enqueue("mail", [builders.new_job(f"j{number}") for number in range(4)])
    between(lambda: backend.enqueue("mail", [builders.new_job("late")]))

    assert await backend.obliterate("mail", force=False) == 4
    assert (await backend.get("mail", ["late"]))[0] is not None


@pytest.mark.promise("P-53")
async def test_a_queue_with_a_running_job_is_left_whole_without_force(
    backend: SqliteBackend, clock: ManualClock
) -> None:
    await backend.enqueue("mail", [builders.new_job(f"j{number}") for number in range(5)])
    await backend.claim("mail", 1, LEASE_MS, builders.claimant())

    assert await backend.obliterate("mail", force=False) is None
    assert (await backend.counts("mail")).stored == 5
