"""Dependants: blocked until their parents end, released once, also after a crash in between."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import FollowUpKind, Keep, NewJob, OnParentFailure, Parent, Ref, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.conformance.relay import carry_out, carry_out_entry

POLICIES = list(OnParentFailure)


def _child(
    job_id: str = "c", *, on_failure: OnParentFailure = OnParentFailure.FAIL, delay_ms: int = 0
) -> NewJob:
    return builders.with_parent(job_id, "p", on_failure=on_failure, delay_ms=delay_ms)


async def _relay(queue: QueueUnderTest) -> None:
    await carry_out(queue.backend, await queue.backend.queues())


@pytest.mark.promise("P-110", "A-24")
async def test_a_job_with_an_open_parent_is_blocked(queue: QueueUnderTest) -> None:
    await queue.start("p")

    (answer,) = await queue.put(_child())
    await _relay(queue)

    record = await queue.record("c")
    assert answer.state is record.state is State.BLOCKED
    assert record.open_parents == (Parent(queue="mail", id="p"),)
    assert await queue.claim_ids() == []


@pytest.mark.promise("P-110", "A-24")
async def test_a_dependant_is_released_when_its_parent_completes(queue: QueueUnderTest) -> None:
    lease = await queue.start("p")
    await queue.put(_child())
    await _relay(queue)

    await queue.settle(builders.complete(lease))
    await _relay(queue)

    assert await queue.story("c") == [EventKind.ENQUEUED, EventKind.UNBLOCKED]
    assert await queue.claim_ids() == ["c"]


@pytest.mark.promise("P-110", "A-24")
async def test_a_dependant_added_after_its_parents_end_is_released_too(queue: QueueUnderTest) -> None:
    await queue.finish("p")

    await queue.put(_child())
    await _relay(queue)

    assert await queue.claim_ids() == ["c"]


@pytest.mark.promise("P-110", "A-24")
@pytest.mark.parametrize("keep", [Keep(), Keep(record_ms=0)], ids=["kept", "keep 0"])
async def test_an_end_before_the_parent_was_told_of_its_dependant_still_counts(
    queue: QueueUnderTest, keep: Keep
) -> None:
    lease = await queue.start("p", keep=keep)
    await queue.put(_child(on_failure=OnParentFailure.IGNORE))
    await queue.settle(builders.complete(lease))

    await _relay(queue)

    assert await queue.claim_ids() == ["c"]


@pytest.mark.promise("P-110")
async def test_the_follow_up_is_there_in_the_step_that_ends_a_parent_that_is_not_kept(
    queue: QueueUnderTest,
) -> None:
    lease = await queue.start("p", keep=Keep(record_ms=0))
    await queue.put(_child())
    await _relay(queue)

    await queue.settle(builders.complete(lease))

    (entry,) = await queue.backend.outbox(queue.name, ALL)
    assert (entry.kind, entry.child.id, entry.outcome) == (FollowUpKind.RESOLVE, "c", State.COMPLETED)
    await _relay(queue)
    assert await queue.state("c") is State.WAITING


@pytest.mark.promise("P-110", "A-24")
@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        (OnParentFailure.FAIL, State.FAILED),
        (OnParentFailure.IGNORE, State.WAITING),
        (OnParentFailure.KEEP, State.BLOCKED),
    ],
)
@pytest.mark.parametrize("end", ["failed", "cancelled", "expired"])
async def test_a_parent_that_does_not_complete_acts_by_the_dependants_policy(
    queue: QueueUnderTest, policy: OnParentFailure, becomes: State, end: str
) -> None:
    await queue.enqueue("p", ttl_ms=HOUR_MS)
    await queue.put(_child(on_failure=policy))
    await _relay(queue)

    if end == "failed":
        await queue.settle(builders.fail(await queue.lease()))
    elif end == "cancelled":
        await queue.cancel("p")
    else:
        queue.clock.advance(HOUR_MS + 1)
        await queue.backend.advance(queue.name, ALL)
    await _relay(queue)

    record = await queue.record("c")
    assert record.state is becomes
    assert record.reason == ("parent" if becomes is State.FAILED else None)


@pytest.mark.promise("P-110", "P-54", "A-24")
async def test_a_kept_dependant_is_released_when_a_replay_of_its_parent_completes(
    queue: QueueUnderTest,
) -> None:
    await queue.enqueue("p")
    await queue.put(_child(on_failure=OnParentFailure.KEEP))
    await _relay(queue)
    await queue.settle(builders.fail(await queue.lease()))
    await _relay(queue)
    await queue.replay("p")

    await queue.settle(builders.complete(await queue.lease()))
    await _relay(queue)

    assert await queue.claim_ids() == ["c"]


@pytest.mark.promise("P-110", "A-24")
@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        (OnParentFailure.FAIL, State.FAILED),
        (OnParentFailure.IGNORE, State.WAITING),
        (OnParentFailure.KEEP, State.BLOCKED),
    ],
)
async def test_an_unknown_parent_counts_as_one_that_did_not_complete(
    queue: QueueUnderTest, policy: OnParentFailure, becomes: State
) -> None:
    await queue.put(_child(on_failure=policy))

    await _relay(queue)

    assert await queue.state("c") is becomes


@pytest.mark.promise("P-110", "P-53")
async def test_removing_a_parent_does_not_leave_its_dependants_blocked_for_ever(
    queue: QueueUnderTest,
) -> None:
    await queue.enqueue("p")
    await queue.put(_child())
    await _relay(queue)

    await queue.remove("p")
    await _relay(queue)

    assert await queue.state("c") is State.FAILED


@pytest.mark.promise("P-110", "A-24")
async def test_a_job_waits_for_all_of_its_parents(queue: QueueUnderTest) -> None:
    await queue.enqueue("p1", "p2")
    await queue.put(builders.with_parent("c", "p1", "p2"))
    await _relay(queue)
    p1, p2 = (await queue.claim(2)).leases

    await queue.settle(builders.complete(p2))
    await _relay(queue)
    assert [parent.id for parent in (await queue.record("c")).open_parents] == ["p1"]
    assert await queue.state("c") is State.BLOCKED

    await queue.settle(builders.complete(p1))
    await _relay(queue)
    assert await queue.state("c") is State.WAITING


@pytest.mark.promise("P-110", "A-24")
async def test_a_diamond_runs_in_order(queue: QueueUnderTest) -> None:
    await queue.put(
        builders.new_job("top"),
        builders.with_parent("left", "top"),
        builders.with_parent("right", "top"),
        builders.with_parent("bottom", "left", "right"),
    )
    ran = []
    for _ in range(4):
        await _relay(queue)
        lease = await queue.lease()
        ran.append(lease.ref.id)
        await queue.settle(builders.complete(lease))

    assert ran[0] == "top"
    assert set(ran[1:3]) == {"left", "right"}
    assert ran[3] == "bottom"


@pytest.mark.promise("P-110")
async def test_a_parent_in_another_queue_releases_its_dependant(queue: QueueUnderTest) -> None:
    elsewhere = QueueUnderTest(backend=queue.backend, clock=queue.clock, name="elsewhere")
    lease = await elsewhere.start("p")
    await queue.put(builders.with_parent("c", "p", queue="elsewhere"))
    await _relay(queue)
    assert await queue.state("c") is State.BLOCKED

    await elsewhere.settle(builders.complete(lease))
    await _relay(queue)

    assert await queue.claim_ids() == ["c"]


@pytest.mark.promise("P-110", "A-24")
async def test_a_crash_between_carrying_out_and_forgetting_releases_once(queue: QueueUnderTest) -> None:
    lease = await queue.start("p")
    await queue.put(_child())
    await _relay(queue)
    await queue.settle(builders.complete(lease))
    for entry in await queue.backend.outbox(queue.name, ALL):
        await carry_out_entry(queue.backend, entry)
    running = await queue.lease()

    await _relay(queue)

    assert running.ref.id == "c"
    assert await queue.state("c") is State.ACTIVE
    assert (await queue.story("c")).count(EventKind.UNBLOCKED) == 1


@pytest.mark.promise("P-110")
async def test_attaching_again_changes_nothing(queue: QueueUnderTest) -> None:
    await queue.enqueue("p")
    (answer,) = await queue.put(_child())
    for _ in range(3):
        attached = await queue.backend.attach(queue.name, "p", answer.ref, OnParentFailure.FAIL)
        assert (attached.known, attached.ended) == (True, None)

    await queue.settle(builders.complete(await queue.lease()))

    entries = await queue.backend.outbox(queue.name, ALL)
    assert [entry.kind for entry in entries if entry.kind is FollowUpKind.RESOLVE] == [FollowUpKind.RESOLVE]


@pytest.mark.promise("P-110")
async def test_attaching_tells_how_a_parent_ended_and_that_one_is_unknown(queue: QueueUnderTest) -> None:
    child = Ref(queue="mail", id="c", generation=1)
    await queue.die("p")

    ended = await queue.backend.attach(queue.name, "p", child, OnParentFailure.FAIL)
    unknown = await queue.backend.attach(queue.name, "nobody", child, OnParentFailure.FAIL)

    assert (ended.known, ended.ended) == (True, State.FAILED)
    assert (unknown.known, unknown.ended) == (False, None)


@pytest.mark.promise("P-110")
@pytest.mark.parametrize("passes", [True, False])
async def test_resolving_again_changes_nothing(queue: QueueUnderTest, passes: bool) -> None:
    (answer,) = await queue.put(_child())

    first = await queue.backend.resolve(answer.ref, "mail", "p", passes=passes)
    before = await queue.record("c")
    again = await queue.backend.resolve(answer.ref, "mail", "p", passes=passes)

    assert (first, again) == (True, False)
    assert await queue.record("c") == before


@pytest.mark.promise("P-110", "P-44")
async def test_resolving_names_one_life_of_the_dependant(queue: QueueUnderTest) -> None:
    (answer,) = await queue.put(_child())
    stale = Ref(queue="mail", id="c", generation=answer.ref.generation + 1)

    assert not await queue.backend.resolve(stale, "mail", "p", passes=True)
    assert not await queue.backend.resolve(answer.ref, "mail", "stranger", passes=True)
    assert await queue.state("c") is State.BLOCKED


@pytest.mark.promise("P-110", "P-31")
async def test_a_released_dependant_still_waits_for_its_due_time(queue: QueueUnderTest) -> None:
    await queue.put(_child(delay_ms=HOUR_MS))
    (record,) = await queue.backend.get(queue.name, ["c"])
    assert record is not None

    await queue.backend.resolve(record.ref, "mail", "p", passes=True)

    assert await queue.state("c") is State.SCHEDULED


@pytest.mark.promise("P-110", "P-50")
async def test_a_cancelled_dependant_is_not_brought_back_by_its_parent(queue: QueueUnderTest) -> None:
    lease = await queue.start("p")
    await queue.put(_child())
    await _relay(queue)
    await queue.cancel("c")

    await queue.settle(builders.complete(lease))
    await _relay(queue)

    assert await queue.state("c") is State.CANCELLED


@pytest.mark.promise("P-110")
async def test_a_failure_runs_down_a_chain(queue: QueueUnderTest) -> None:
    await queue.put(builders.new_job("a"), builders.with_parent("b", "a"), builders.with_parent("c", "b"))
    await _relay(queue)

    await queue.settle(builders.fail(await queue.lease()))
    await _relay(queue)

    assert [await queue.state(job_id) for job_id in "abc"] == [State.FAILED] * 3


@pytest.mark.promise("P-110", "P-34")
async def test_follow_ups_are_read_in_order_bounded_and_forgotten_once_done(queue: QueueUnderTest) -> None:
    await queue.put(*(_child(f"c{number}") for number in range(5)))

    some = await queue.backend.outbox(queue.name, 3)
    assert [entry.child.id for entry in some] == ["c0", "c1", "c2"]
    await queue.backend.outbox_done(queue.name, [entry.id for entry in some])
    await queue.backend.outbox_done(queue.name, [entry.id for entry in some])

    rest = await queue.backend.outbox(queue.name, ALL)
    assert [entry.child.id for entry in rest] == ["c3", "c4"]


@pytest.mark.promise("P-110", "P-11", "E-47")
async def test_an_offered_child_is_enqueued_only_for_a_live_attempt(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.note(builders.offer(lease, "child", "mail"))
    await queue.settle(builders.complete(lease))
    await queue.note(builders.offer(lease, "late", "mail"))

    await _relay(queue)

    assert (await queue.record("child")).creator == lease.ref
    assert await queue.state("late") is None


@pytest.mark.promise("P-110", "P-54")
async def test_a_replayed_dependant_waits_again_for_a_parent_that_has_not_ended(
    queue: QueueUnderTest,
) -> None:
    lease = await queue.start("p")
    await queue.put(_child())
    await queue.cancel("c")

    await queue.replay("c")
    await _relay(queue)
    assert await queue.state("c") is State.BLOCKED

    await queue.settle(builders.complete(lease))
    await _relay(queue)
    assert await queue.claim_ids() == ["c"]


@pytest.mark.promise("P-110", "P-54")
async def test_a_dependant_that_its_parent_failed_runs_when_it_is_replayed(queue: QueueUnderTest) -> None:
    await queue.die("p")
    await queue.put(_child())
    await _relay(queue)
    assert await queue.state("c") is State.FAILED

    await queue.replay("c")
    await _relay(queue)

    assert await queue.claim_ids() == ["c"]
