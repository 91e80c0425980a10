"""Lost replies: every write that a client may have to repeat, repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasemq.protocol.insight import CancelAnswer, Change, EventKind
from leasemq.protocol.model import Keep, Noted, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-03")
async def test_a_claim_repeated_with_its_request_id_gets_the_same_leases(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")
    request = builders.request_id()
    first = await queue.claim(2, request=request)
    told = await queue.events()

    again = await queue.claim(2, request=request)

    assert again.leases == first.leases
    assert await queue.events() == told
    assert await queue.state("c") is State.WAITING


@pytest.mark.promise("P-03")
async def test_a_repeated_claim_gets_no_others_even_when_it_asks_for_more(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")
    request = builders.request_id()
    first = await queue.claim(1, request=request)

    again = await queue.claim(10, request=request)

    assert again.leases == first.leases


@pytest.mark.promise("P-03")
async def test_a_repeated_claim_gets_what_is_still_active_of_it(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")
    request = builders.request_id()
    a, b = (await queue.claim(2, request=request)).leases
    await queue.settle(builders.complete(a))

    again = await queue.claim(2, request=request)

    assert again.leases == (b,)


@pytest.mark.promise("P-03", "P-52")
async def test_a_repeated_claim_is_answered_while_the_queue_is_paused(queue: QueueUnderTest) -> None:
    await queue.enqueue("a")
    request = builders.request_id()
    first = await queue.claim(1, request=request)
    await queue.backend.pause(queue.name)

    again = await queue.claim(1, request=request)

    assert again.leases == first.leases


@pytest.mark.promise("P-03")
async def test_a_repeated_claim_shows_the_deadline_that_a_renewal_has_set(queue: QueueUnderTest) -> None:
    await queue.enqueue("a")
    request = builders.request_id()
    (lease,) = (await queue.claim(1, request=request)).leases
    queue.clock.advance(SECOND_MS)
    await queue.renew(lease)

    (again,) = (await queue.claim(1, request=request)).leases

    assert again.fence == lease.fence
    assert again.lease_until_ms == lease.lease_until_ms + SECOND_MS


@pytest.mark.promise("P-03", "P-11")
@pytest.mark.parametrize("write", builders.SETTLEMENTS)
async def test_a_settlement_repeated_at_once_is_recognised(queue: QueueUnderTest, write: str) -> None:
    settlement = builders.SETTLEMENTS[write](await queue.start())
    assert await queue.settle(settlement) is Settled.APPLIED
    before, told = await queue.record(), await queue.events()

    assert await queue.settle(settlement) is Settled.REPLAYED

    assert await queue.record() == before
    assert await queue.events() == told


@pytest.mark.promise("P-03", "P-11")
@pytest.mark.parametrize("write", ["retry", "release", "snooze"])
async def test_a_settlement_repeated_after_later_attempts_is_recognised(
    queue: QueueUnderTest, write: str
) -> None:
    settlement = builders.SETTLEMENTS[write](await queue.start())
    await queue.settle(settlement)
    queue.clock.advance(10 * SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    for _ in range(3):
        await queue.settle(builders.release(await queue.lease(worker="B")))
    newest = await queue.lease(worker="B")

    assert await queue.settle(settlement) is Settled.REPLAYED
    assert await queue.settle(builders.complete(newest)) is Settled.APPLIED


@pytest.mark.promise("P-03", "P-05")
async def test_a_settlement_repeated_after_a_replay_is_recognised(queue: QueueUnderTest) -> None:
    settlement = builders.fail(await queue.start())
    await queue.settle(settlement)
    await queue.replay()

    assert await queue.settle(settlement) is Settled.REPLAYED
    assert await queue.state() is State.WAITING


@pytest.mark.promise("P-03")
async def test_a_sweeps_settlement_repeated_is_recognised(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.fall_silent()
    settlement = builders.stall(lease)
    assert await queue.settle(settlement) is Settled.APPLIED

    assert await queue.settle(settlement) is Settled.REPLAYED
    assert (await queue.record()).stalls == 1


@pytest.mark.promise("P-03", "E-29")
@pytest.mark.parametrize("write", ["complete", "acknowledge_cancel"])
async def test_with_retention_zero_the_record_is_gone_in_the_same_step_and_so_is_the_repeat(
    queue: QueueUnderTest, write: str
) -> None:
    lease = await queue.start(keep=Keep(result_ms=0, record_ms=0))
    settlement = builders.SETTLEMENTS[write](lease)

    assert await queue.settle(settlement) is Settled.APPLIED
    assert await queue.state() is None
    assert await queue.settle(settlement) is Settled.GONE
    counts = await queue.counts()
    assert (counts.accepted, counts.removed, counts.stored) == (1, 1, 0)


@pytest.mark.promise("P-03")
async def test_a_settlement_repeated_after_the_record_was_removed_is_gone(queue: QueueUnderTest) -> None:
    settlement = builders.complete(await queue.start())
    await queue.settle(settlement)
    await queue.remove()

    assert await queue.settle(settlement) is Settled.GONE
    assert await queue.state() is None


@pytest.mark.promise("P-03", "P-54")
async def test_a_replay_repeated_with_its_request_id_changes_nothing_more(queue: QueueUnderTest) -> None:
    await queue.die()
    assert (await queue.replay(request=77)).change is Change.DONE
    before, told = await queue.record(), await queue.events()

    assert (await queue.replay(request=77)).change is Change.DONE

    assert await queue.record() == before
    assert await queue.events() == told


@pytest.mark.promise("P-03", "P-54")
async def test_a_replay_repeated_after_the_next_run_has_ended_does_not_start_another(
    queue: QueueUnderTest,
) -> None:
    await queue.die()
    await queue.replay(request=77)
    await queue.settle(builders.fail(await queue.lease()))

    assert (await queue.replay(request=77)).change is Change.DONE
    assert await queue.state() is State.FAILED
    assert (await queue.replay(request=78)).change is Change.DONE
    assert await queue.state() is State.WAITING


@pytest.mark.promise("P-03", "P-50")
async def test_a_cancellation_repeated_is_recorded_once(queue: QueueUnderTest) -> None:
    await queue.start()
    assert await queue.cancel() is CancelAnswer.CANCELLING
    before, told = await queue.record(), await queue.events()

    assert await queue.cancel() is CancelAnswer.CANCELLING

    assert await queue.record() == before
    assert await queue.events() == told


@pytest.mark.promise("P-03")
async def test_a_renewal_repeated_holds_the_lease(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    assert await queue.renew(lease) == await queue.renew(lease) == "held"
    assert (await queue.record()).lease_until_ms == lease.lease_until_ms


@pytest.mark.promise("P-03", "P-63")
async def test_progress_and_checkpoint_repeated_are_the_same(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    notes = [builders.progress(lease), builders.checkpoint(lease)]

    await queue.backend.note(queue.name, notes)
    once = await queue.record()
    await queue.backend.note(queue.name, notes)

    assert await queue.record() == once


@pytest.mark.promise("P-03", "P-63", "E-39")
async def test_numbered_notes_repeated_leave_one_line_one_entry_and_one_child(queue: QueueUnderTest) -> None:
    lease = await queue.start(trail=10)
    notes = [
        builders.progress(lease, number=1),
        builders.log_line(lease, number=2),
        replace(builders.offer(lease), number=3),
    ]

    answers = [await queue.backend.note(queue.name, notes) for _ in range(2)]
    answers.append(
        await queue.backend.note(queue.name, [*notes[1:], builders.log_line(lease, b"x", number=4)])
    )

    assert [set(answer) for answer in answers] == [{Noted.HELD}] * 3
    record = await queue.record()
    assert (record.log, record.refused) == ((b"halfway", b"x"), ())
    assert (await queue.story()).count(EventKind.PROGRESS) == 1
    assert len(await queue.backend.outbox(queue.name, ALL)) == 1
    page = await queue.backend.trail(queue.name, "j", None, None, ALL)
    assert page is not None
    assert [entry.value for entry in page.entries] == [None, None, b"3/10", b"halfway", b"x"]


@pytest.mark.promise("P-03", "P-63", "E-39")
async def test_the_numbers_of_notes_begin_anew_with_each_attempt(queue: QueueUnderTest) -> None:
    first = await queue.start()
    await queue.note(builders.log_line(first, b"one", number=7))
    await queue.settle(builders.retry(first))
    second = await queue.lease()

    late = await queue.note(builders.log_line(first, b"one", number=7))
    new = await queue.note(builders.log_line(second, b"two", number=1))

    assert (late, new) == (Noted.LOST, Noted.HELD)
    assert (await queue.record()).log == (b"one", b"two")


@pytest.mark.promise("P-03", "E-47")
async def test_a_child_offered_twice_is_enqueued_once(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    for _ in range(2):
        await queue.note(builders.offer(lease, "child", "mail"))

    for entry in await queue.backend.outbox(queue.name, ALL):
        assert entry.job is not None
        await queue.backend.enqueue(entry.child.queue, [entry.job])

    assert (await queue.counts()).accepted == 2
    assert (await queue.record("child")).creator == lease.ref
