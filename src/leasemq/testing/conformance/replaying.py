"""Replay: a new run of a dead letter, with its past, under larger fences."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import Change, EventKind
from leasemq.protocol.model import Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-54", "B07", "A-23", "E-31")
async def test_a_replay_keeps_id_payload_and_history_and_starts_clean_counters(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.start()))
    await queue.stall_once()
    await queue.settle(builders.fail(await queue.lease()))
    past = await queue.record()

    answer = await queue.replay()

    record = await queue.record()
    assert (answer.change, answer.state) == (Change.DONE, State.FAILED)
    assert (record.state, record.ref, record.payload) == (State.WAITING, past.ref, past.payload)
    assert (record.attempts, record.failures, record.stalls, record.replays) == (0, 0, 0, 1)
    assert record.history == past.history
    assert (record.ended_ms, record.keep_until_ms, record.error, record.reason) == (None,) * 4
    assert (await queue.story())[-1] is EventKind.REPLAYED


@pytest.mark.promise("P-54", "P-10", "P-05")
async def test_a_replayed_run_has_larger_fences_and_is_marked_in_the_history(queue: QueueUnderTest) -> None:
    dead = await queue.die()
    queue.clock.step(-HOUR_MS)
    await queue.replay()

    lease = await queue.lease()
    await queue.settle(builders.retry(lease))
    await queue.lease()

    record = await queue.record()
    assert lease.fence.number == dead.fence.number + 1
    assert lease.attempts == 1
    assert [attempt.replay for attempt in record.history] == [False, True, False]


@pytest.mark.promise("P-54")
@pytest.mark.parametrize("state", [State.EXPIRED, State.CANCELLED])
async def test_expired_and_cancelled_jobs_can_be_replayed_too(queue: QueueUnderTest, state: State) -> None:
    await queue.enqueue("j", ttl_ms=HOUR_MS)
    if state is State.EXPIRED:
        queue.clock.advance(HOUR_MS + 1)
        await queue.backend.advance(queue.name, ALL)
    else:
        await queue.cancel()

    assert (await queue.replay()).state is state
    assert await queue.settle(builders.complete(await queue.lease())) is Settled.APPLIED


@pytest.mark.promise("P-54", "P-50")
async def test_a_job_cancelled_while_it_ran_and_replayed_runs_uncancelled(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.cancel()
    await queue.settle(builders.acknowledge_cancel(lease))

    await queue.replay()

    again = await queue.lease()
    assert not again.cancel_requested
    assert await queue.settle(builders.complete(again)) is Settled.APPLIED


@pytest.mark.promise("P-54", "P-05", "A-22")
async def test_what_has_not_died_cannot_be_replayed(queue: QueueUnderTest) -> None:
    await queue.finish("completed")
    await queue.start("running")
    await queue.enqueue("waiting")
    await queue.enqueue("scheduled", delay_ms=1)
    ids = ["completed", "running", "waiting", "scheduled", "nobody"]

    changes = await queue.backend.replay(queue.name, ids, 77)

    assert [change.change for change in changes] == ["illegal"] * 4 + ["not_found"]
    assert await queue.state("completed") is State.COMPLETED


@pytest.mark.promise("P-54", "P-32")
async def test_a_replayed_job_waits_behind_those_that_waited_before(queue: QueueUnderTest) -> None:
    await queue.die("dead")
    await queue.enqueue("before")
    await queue.replay("dead")
    await queue.enqueue("after")

    assert await queue.claim_ids() == ["before", "dead", "after"]


@pytest.mark.promise("P-54", "P-63")
async def test_a_replay_forgets_the_old_runs_progress(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.note(builders.progress(lease))
    await queue.settle(builders.fail(lease))

    await queue.replay()

    assert (await queue.record()).progress is None


@pytest.mark.promise("P-54", "P-05")
async def test_the_end_of_the_new_run_stands_and_the_old_holder_is_refused(queue: QueueUnderTest) -> None:
    old = await queue.die()
    await queue.replay()
    await queue.settle(builders.complete(await queue.lease(worker="B"), b"second run"))

    assert await queue.settle(builders.complete(old, b"first run")) is Settled.LOST
    record = await queue.record()
    assert (record.state, record.result) == (State.COMPLETED, b"second run")
    assert record.refused_count == 1


@pytest.mark.promise("P-54", "P-01")
async def test_a_replayed_job_is_not_pruned_by_its_old_end(queue: QueueUnderTest) -> None:
    await queue.die()
    await queue.replay()
    queue.clock.advance(1_000 * HOUR_MS)

    assert await queue.backend.prune(queue.name, ALL) == 0
    assert await queue.state() is State.WAITING
