"""Trouble that a caller must not pay for: a lost answer, a fault in another's work, a watch that breaks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from leasemq import App, State
from leasemq.client.repeating import until_answered
from leasemq.errors import (
    BackendUnavailable,
    CorruptRecord,
    IllegalMove,
    IndeterminateWrite,
    LeaseMQError,
    Unsupported,
)
from leasemq.protocol.decide import Reason
from leasemq.protocol.insight import CancelAnswer, Changed, JobRecord
from leasemq.protocol.model import FollowUp
from leasemq.task import Task
from tests.app.holder import Holder
from tests.app.troubled import Trouble, TroubledBackend


class FaultyBackend(TroubledBackend):
    """Fails in other places too: `faults` has what to raise, by operation. Owner: the test."""

    def __init__(self, *troubles: Trouble) -> None:
        super().__init__(*troubles)
        self.faults: dict[str, Exception] = {}
        self.lost_replays = 0
        self.replay_requests: list[int] = []

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """Read, or fail."""
        self._fail("get")
        return await super().get(queue, ids)

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        """Read, or fail."""
        self._fail("outbox")
        return await super().outbox(queue, limit)

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """Replay, and lose the answer as often as told."""
        self.replay_requests.append(request_id)
        changed = await super().replay(queue, ids, request_id)
        if self.lost_replays:
            self.lost_replays -= 1
            raise IndeterminateWrite("the connection broke")
        return changed

    def _fail(self, operation: str) -> None:
        if operation in self.faults:
            raise self.faults[operation]


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend()


@pytest.fixture
def app(backend: FaultyBackend) -> App:
    return App(backend)


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


@pytest.mark.promise("P-40", "B06")
async def test_a_lost_answer_to_an_enqueue_with_reuse_starts_one_generation_however_fast_the_job_ends(
    app: App, task: Task[[int], Any], holder: Holder, backend: FaultyBackend
) -> None:
    chosen = task.options(id="a", reuse=["completed"])
    async with app:
        await chosen.enqueue(1)
        await holder.returns_next(task, 1)
        backend.troubles = [Trouble.LOST_ANSWER]
        whole_enqueue = backend.enqueue

        async def ended_before_the_repeat(queue: str, jobs: Any) -> Any:
            try:
                return await whole_enqueue(queue, jobs)
            except IndeterminateWrite:
                await holder.returns_next(task, 2)
                raise

        backend.enqueue = ended_before_the_repeat  # type: ignore[method-assign]  # the edge of the process
        again = await chosen.enqueue(2)
        assert again.generation == 2
        assert await again.result(timeout=0) == 2
        assert len(backend.batches) == 3


@pytest.mark.promise("P-40", "P-04")
async def test_repeating_a_call_with_reuse_runs_it_once_and_another_call_runs_it_again(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    chosen = task.options(id="a", reuse=["completed"])
    async with app:
        call = chosen.call(1)
        (first,) = await task.enqueue_many([call])
        await holder.returns_next(task, 1)
        (repeated,) = await task.enqueue_many([call])
        assert (first.generation, repeated.generation, repeated.created) == (1, 1, False)
        assert (await chosen.enqueue(1)).generation == 2


@pytest.mark.promise("P-04")
async def test_a_doubtful_enqueue_with_reuse_does_not_promise_that_a_repeat_by_id_leaves_one_job(
    app: App, task: Task[[int], Any], backend: FaultyBackend
) -> None:
    async with app:
        (await app._connections.here()).intake._patience_ms = 0
        for options, said in (({}, "leaves one job"), ({"reuse": ["failed"]}, "look at its state")):
            backend.troubles = [Trouble.LOST_ANSWER]
            with pytest.raises(IndeterminateWrite, match=said):
                await task.options(id="a", **options).enqueue(1)  # type: ignore[arg-type]  # a plain dict


@pytest.mark.promise("P-54", "P-04")
async def test_a_replay_whose_answer_was_lost_is_repeated_with_the_same_request_and_succeeds(
    app: App, task: Task[[int], Any], holder: Holder, backend: FaultyBackend
) -> None:
    async with app:
        job = await task.enqueue(1)
        (lease,) = await holder.claim()
        await holder.gives_up(lease, ValueError("no"), Reason.DEAD)
        backend.lost_replays = 2
        await app.replay(job)
        assert len(backend.replay_requests) == 3
        assert len(set(backend.replay_requests)) == 1
        assert (await job.record()).replays == 1
        with pytest.raises(IllegalMove):
            await app.replay(job)


@pytest.mark.promise("P-04")
async def test_a_request_in_doubt_stays_in_doubt_however_its_repeats_fail() -> None:
    faults: list[LeaseMQError] = [IndeterminateWrite("lost"), *[BackendUnavailable("away")] * 99]

    async def ask() -> None:
        raise faults.pop(0)

    with pytest.raises(IndeterminateWrite, match="lost"):
        await until_answered(ask, patience_ms=60)
    assert len(faults) < 99
    faults[:] = [BackendUnavailable("away")]
    with pytest.raises(BackendUnavailable, match="away"):
        await until_answered(ask, patience_ms=0)


@pytest.mark.promise("P-110", "P-04")
@pytest.mark.parametrize(
    "fault", [CorruptRecord("a row that is somebody else's"), BackendUnavailable("away"), ValueError("a bug")]
)
async def test_an_enqueue_with_parents_is_answered_whatever_becomes_of_the_follow_ups_of_others(
    app: App,
    task: Task[[int], Any],
    backend: FaultyBackend,
    fault: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with app:
        parent = await task.enqueue(1)
        backend.faults["outbox"] = fault
        with caplog.at_level(logging.WARNING, "leasemq"):
            child = await task.options(after=[parent]).enqueue(2)
            (other,) = await task.options(after=[parent]).enqueue_many([(3,)])
        assert (child.created, other.created) == (True, True)
        assert await child.state() is State.BLOCKED
        assert len(caplog.records) == (0 if isinstance(fault, BackendUnavailable) else 2)


@pytest.mark.promise("P-60")
async def test_a_fault_that_the_watch_does_not_expect_reaches_the_waiter_as_itself(
    app: App, task: Task[[int], Any], backend: FaultyBackend
) -> None:
    async with app:
        job = await task.enqueue(1)
        backend.faults["get"] = Unsupported("no such table")
        with pytest.raises(Unsupported, match="no such table"):
            await job.result(timeout=10)


@pytest.mark.promise("P-50", "P-44")
async def test_cancelling_one_life_never_cancels_another_that_begins_at_that_very_moment(
    app: App, task: Task[[int], Any], holder: Holder, backend: FaultyBackend
) -> None:
    async with app:
        old = await task.options(id="a").enqueue(1)
        cancel = backend.cancel

        async def just_too_late(
            queue: str, ids: Sequence[str], generation: int | None = None
        ) -> Sequence[CancelAnswer]:
            await holder.returns_next(task, 1)
            await task.options(id="a", reuse=["completed"]).enqueue(2)
            return await cancel(queue, ids, generation)

        backend.cancel = just_too_late  # type: ignore[method-assign]  # the edge of the process
        assert await old.cancel() is CancelAnswer.FINISHED
        record = await task.job("a").record()
        assert (record.ref.generation, record.state) == (2, State.WAITING)
