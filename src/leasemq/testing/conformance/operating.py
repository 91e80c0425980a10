"""Operators' moves: each is conditional, in the write, on the state it finds."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import Change, EventKind
from leasemq.protocol.model import Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

ENDED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED})


@pytest.mark.promise("P-53", "A-22")
async def test_a_promoted_job_is_due_now(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=HOUR_MS)

    (changed,) = await queue.backend.promote(queue.name, ["j"])

    assert (changed.change, changed.state) == (Change.DONE, State.SCHEDULED)
    assert (await queue.record()).due_ms == queue.clock()
    assert (await queue.story())[-1] is EventKind.PROMOTED
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-53", "A-22")
async def test_only_a_scheduled_job_can_be_promoted(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.start("running")
    await queue.enqueue("waiting")
    await queue.put(builders.with_parent("blocked", "p"))

    changes = await queue.backend.promote(queue.name, ["ended", "running", "waiting", "blocked", "nobody"])

    assert [change.change for change in changes] == ["illegal"] * 4 + ["not_found"]
    assert [change.state for change in changes] == [
        State.COMPLETED, State.ACTIVE, State.WAITING, State.BLOCKED, None,
    ]  # fmt: skip


@pytest.mark.promise("P-53", "P-31")
async def test_a_waiting_job_can_be_put_off(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")

    (changed,) = await queue.backend.reschedule(queue.name, ["j"], SECOND_MS)

    assert (changed.change, changed.state) == (Change.DONE, State.WAITING)
    assert await queue.claim_ids() == []
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-53", "P-32")
async def test_a_waiting_job_that_is_made_due_now_keeps_its_place(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")
    told = await queue.events()

    (changed,) = await queue.backend.reschedule(queue.name, ["a"], 0)

    assert (changed.change, changed.state) == (Change.DONE, State.WAITING)
    assert await queue.events() == told
    assert await queue.claim_ids() == ["a", "b"]


@pytest.mark.promise("P-53", "P-31")
async def test_a_scheduled_job_can_be_given_another_due_time(queue: QueueUnderTest) -> None:
    await queue.enqueue("sooner", "later", delay_ms=HOUR_MS)

    await queue.backend.reschedule(queue.name, ["sooner"], SECOND_MS)
    await queue.backend.reschedule(queue.name, ["later"], 2 * HOUR_MS)

    queue.clock.advance(HOUR_MS)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.claim_ids() == ["sooner"]
    assert (await queue.record("later")).due_ms == queue.clock() + HOUR_MS


@pytest.mark.promise("P-53")
async def test_a_scheduled_job_rescheduled_to_now_waits(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=HOUR_MS)

    await queue.backend.reschedule(queue.name, ["j"], 0)

    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-53", "A-22")
async def test_a_job_that_runs_or_has_ended_cannot_be_put_off(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.start("running")

    changes = await queue.backend.reschedule(queue.name, ["ended", "running", "nobody"], SECOND_MS)

    assert [change.change for change in changes] == ["illegal", "illegal", "not_found"]


@pytest.mark.promise("P-53", "P-32")
async def test_a_scheduled_or_blocked_job_takes_its_new_priority_with_it(queue: QueueUnderTest) -> None:
    await queue.enqueue("low", "other", delay_ms=1)
    await queue.backend.reprioritise(queue.name, ["other"], 3)
    queue.clock.advance(1)
    await queue.backend.advance(queue.name, ALL)

    assert await queue.claim_ids() == ["other", "low"]


@pytest.mark.promise("P-53", "A-22", "E-49")
async def test_a_removed_job_is_gone_with_all_that_was_stored(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.enqueue("waiting")

    assert await queue.remove("ended") is Change.DONE
    assert await queue.remove("waiting") is Change.DONE
    assert await queue.remove("nobody") is Change.NOT_FOUND

    counts = await queue.counts()
    assert (counts.stored, counts.removed) == (0, 2)
    assert (await queue.story("ended"))[-1] is EventKind.REMOVED
    assert await queue.claim_ids() == []


@pytest.mark.promise("P-53", "A-22", "B58", "E-49")
async def test_a_running_job_is_removed_only_by_force_and_does_not_come_back(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    assert await queue.remove() is Change.ILLEGAL
    assert await queue.remove(force=True) is Change.DONE

    assert await queue.settle(builders.complete(lease)) is Settled.GONE
    queue.fall_silent()
    assert await queue.sweep() == []
    assert await queue.state() is None


@pytest.mark.promise("P-53", "B58", "A-36")
async def test_a_drain_deletes_what_has_not_started_and_nothing_else(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    lease = await queue.start("running")
    await queue.enqueue("waiting")
    await queue.enqueue("scheduled", delay_ms=1)
    await queue.put(builders.with_parent("blocked", "running"))

    assert await queue.backend.drain(queue.name, ALL) == 3

    assert [await queue.state(job_id) for job_id in ("waiting", "scheduled", "blocked")] == [None] * 3
    assert await queue.state("ended") is State.COMPLETED
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED


@pytest.mark.promise("P-53", "A-36")
async def test_drain_and_purge_delete_no_more_than_asked_and_answer_how_many(queue: QueueUnderTest) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(7)))
    drained = [await queue.backend.drain(queue.name, 3) for _ in range(4)]
    for number in range(5):
        await queue.finish(f"d{number}")
    purged = [await queue.backend.purge(queue.name, ENDED, 0, 2) for _ in range(4)]

    assert drained == [3, 3, 1, 0]
    assert purged == [2, 2, 1, 0]


@pytest.mark.promise("P-53", "A-23", "A-36")
async def test_a_purge_takes_only_the_states_and_ages_asked_for(queue: QueueUnderTest) -> None:
    await queue.die("old")
    queue.clock.advance(HOUR_MS)
    await queue.die("young")
    await queue.finish("completed")
    await queue.enqueue("waiting")

    assert await queue.backend.purge(queue.name, frozenset({State.FAILED}), HOUR_MS, ALL) == 1
    assert await queue.state("old") is None
    assert await queue.backend.purge(queue.name, frozenset({State.FAILED}), 0, ALL) == 1
    assert await queue.state("young") is None
    assert await queue.state("completed") is State.COMPLETED
    assert await queue.state("waiting") is State.WAITING


@pytest.mark.promise("P-53")
async def test_a_purge_never_takes_a_job_that_has_not_ended(queue: QueueUnderTest) -> None:
    await queue.start("running")
    await queue.enqueue("waiting")

    assert await queue.backend.purge(queue.name, frozenset(State), 0, ALL) == 0


@pytest.mark.promise("P-53", "B58", "A-36")
async def test_obliterate_is_refused_while_a_job_runs_unless_forced(queue: QueueUnderTest) -> None:
    lease = await queue.start("running")
    await queue.enqueue("waiting")
    await queue.enqueue("scheduled", delay_ms=1)

    assert await queue.backend.obliterate(queue.name, force=False) is None
    assert (await queue.counts()).stored == 3
    assert await queue.backend.obliterate(queue.name, force=True) == 3

    assert (await queue.counts()).stored == 0
    assert await queue.settle(builders.complete(lease)) is Settled.GONE
    assert await queue.state("running") is None


@pytest.mark.promise("P-53", "P-43")
async def test_obliterating_an_idle_queue_needs_no_force(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.enqueue("waiting")

    assert await queue.backend.obliterate(queue.name, force=False) == 2
    assert await queue.backend.obliterate(queue.name, force=False) == 0
    counts = await queue.counts()
    assert (counts.accepted, counts.removed) == (2, 2)


@pytest.mark.promise("P-53", "B47", "A-50")
async def test_operators_reach_no_further_than_their_queue(queue: QueueUnderTest) -> None:
    await queue.backend.enqueue("mail:2", [builders.new_job()])
    await queue.enqueue("j")

    await queue.backend.drain(queue.name, ALL)
    await queue.backend.obliterate(queue.name, force=True)

    assert (await queue.backend.counts("mail:2")).waiting == 1


@pytest.mark.promise("P-53", "P-43")
async def test_an_unknown_queue_is_empty_for_every_operator(queue: QueueUnderTest) -> None:
    backend = queue.backend

    assert await backend.drain("nowhere", ALL) == 0
    assert await backend.purge("nowhere", ENDED, 0, ALL) == 0
    assert await backend.obliterate("nowhere", force=True) == 0
    assert await backend.prune("nowhere", ALL) == 0
    assert list(await backend.queues()) == []


@pytest.mark.promise("P-53", "A-22", "E-49")
async def test_a_job_found_in_another_state_than_asked_for_is_not_removed(queue: QueueUnderTest) -> None:
    await queue.die("dead")
    await queue.die("replayed")
    await queue.replay("replayed")
    states = frozenset({State.FAILED})

    changes = await queue.backend.remove(queue.name, ["dead", "replayed"], force=True, states=states)

    assert [one.change for one in changes] == [Change.DONE, Change.ILLEGAL]
    assert [await queue.state("dead"), await queue.state("replayed")] == [None, State.WAITING]


@pytest.mark.promise("P-53", "A-20", "P-43")
@pytest.mark.parametrize("state", [State.SCHEDULED, State.WAITING, State.BLOCKED])
async def test_a_drain_takes_only_the_states_asked_for(queue: QueueUnderTest, state: State) -> None:
    await queue.finish("completed")
    await queue.start("active")
    await queue.enqueue("waiting")
    await queue.enqueue("scheduled", delay_ms=HOUR_MS)
    await queue.put(builders.with_parent("blocked", "active"))

    assert await queue.backend.drain(queue.name, ALL, frozenset({state, State.ACTIVE, State.COMPLETED})) == 1

    left = {one for one in State if await queue.state(one.value) is not None}
    assert left == {State.COMPLETED, State.ACTIVE, State.SCHEDULED, State.WAITING, State.BLOCKED} - {state}


@pytest.mark.promise("P-53", "P-31")
@pytest.mark.parametrize("delay_ms", [0, HOUR_MS])
async def test_a_due_time_can_be_moved_to_an_instant_exactly(queue: QueueUnderTest, delay_ms: int) -> None:
    await queue.enqueue("ahead", "past", delay_ms=delay_ms)
    moment_ms = queue.clock() + 1_234

    await queue.backend.reschedule(queue.name, ["ahead"], 5 * HOUR_MS, moment_ms)
    await queue.backend.reschedule(queue.name, ["past"], 5 * HOUR_MS, queue.clock() - 1)

    assert (await queue.record("ahead")).due_ms == moment_ms
    assert await queue.claim_ids() == ["past"]
    queue.clock.advance(1_234)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.claim_ids() == ["ahead"]


@pytest.mark.promise("P-53", "P-32", "B55")
async def test_a_new_priority_leaves_the_order_of_age_within_it(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c", "d")
    await queue.backend.reprioritise(queue.name, ["d"], 5)
    await queue.backend.reprioritise(queue.name, ["b", "a"], 5)
    await queue.backend.reprioritise(queue.name, ["a"], 0)

    assert await queue.claim_ids() == ["b", "d", "a", "c"]


@pytest.mark.promise("P-53", "P-32", "A-22")
async def test_only_what_has_not_started_takes_a_new_priority(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.start("running")

    changes = await queue.backend.reprioritise(queue.name, ["ended", "running", "nobody"], 5)

    assert [one.change for one in changes] == ["illegal", "illegal", "not_found"]
    assert (await queue.record("running")).priority == 0
