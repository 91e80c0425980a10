"""Progress, log lines, checkpoints and offers: fenced writes that do not end the attempt."""

from __future__ import annotations

import pytest

from leasemq.errors import InvalidJobId, InvalidQueueName
from leasemq.protocol.model import HISTORY_LIMIT, Fence, FollowUpKind, Note, Noted, NoteKind, Ref, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

EVERY_BYTE = bytes(range(256))


@pytest.mark.promise("P-63", "A-31")
async def test_progress_is_readable_while_the_job_runs_and_the_last_word_stands(
    queue: QueueUnderTest,
) -> None:
    lease = await queue.start()
    assert (await queue.record()).progress is None

    await queue.note(builders.progress(lease, b"1/10"))
    await queue.note(builders.progress(lease, EVERY_BYTE))

    record = await queue.record()
    assert (record.progress, record.state) == (EVERY_BYTE, State.ACTIVE)


@pytest.mark.promise("P-63")
async def test_log_lines_are_kept_in_order_and_only_the_newest(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    lines = [b"%d" % number for number in range(HISTORY_LIMIT + 10)]

    await queue.backend.note(queue.name, [builders.log_line(lease, line) for line in lines])

    assert (await queue.record()).log == tuple(lines[10:])


@pytest.mark.promise("P-63")
async def test_the_log_goes_on_across_attempts(queue: QueueUnderTest) -> None:
    for line in (b"first", b"second"):
        await queue.enqueue("j")
        lease = await queue.lease()
        await queue.note(builders.log_line(lease, line))
        await queue.settle(builders.retry(lease))

    assert (await queue.record()).log == (b"first", b"second")


@pytest.mark.promise("P-63")
async def test_a_checkpoint_is_handed_on_until_it_is_replaced(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    assert lease.checkpoint is None
    await queue.note(builders.checkpoint(lease, EVERY_BYTE))
    await queue.settle(builders.retry(lease))
    second = await queue.lease()
    assert second.checkpoint == EVERY_BYTE
    await queue.settle(builders.release(second))

    assert (await queue.lease()).checkpoint == EVERY_BYTE


@pytest.mark.promise("P-11", "P-63")
async def test_a_batch_of_notes_is_answered_in_order(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    stranger = Note(
        job_id="j", fence=Fence(number=1, nonce=builders.request_id()), kind=NoteKind.PROGRESS, value=b"x"
    )
    nobody = Note(job_id="nobody", fence=lease.fence, kind=NoteKind.PROGRESS, value=b"x")

    answers = await queue.backend.note(queue.name, [stranger, builders.progress(lease, b"mine"), nobody])

    assert list(answers) == [Noted.LOST, Noted.HELD, Noted.LOST]
    assert (await queue.record()).progress == b"mine"


@pytest.mark.promise("P-110", "E-47")
async def test_an_offer_is_a_follow_up_that_names_its_creator(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    assert await queue.note(builders.offer(lease, "child", "children")) is Noted.HELD

    (entry,) = await queue.backend.outbox(queue.name, ALL)
    assert (entry.kind, entry.child.queue, entry.child.id) == (FollowUpKind.OFFER, "children", "child")
    assert entry.job is not None
    assert (entry.job.id, entry.job.payload, entry.job.creator) == ("child", builders.PAYLOAD, lease.ref)


@pytest.mark.promise("E-47")
@pytest.mark.parametrize("claimed", [None, Ref(queue="elsewhere", id="another", generation=5)])
async def test_the_creator_of_an_offered_job_is_who_offers_it_whatever_the_offer_says(
    queue: QueueUnderTest, claimed: Ref | None
) -> None:
    lease = await queue.start()
    child = builders.new_job("child", creator=claimed)
    note = Note(job_id="j", fence=lease.fence, kind=NoteKind.OFFER, queue="children", child=child)

    await queue.note(note)

    (entry,) = await queue.backend.outbox(queue.name, ALL)
    assert entry.job is not None
    assert entry.job.creator == lease.ref


@pytest.mark.promise("P-110", "E-47")
async def test_an_offer_keeps_every_field_of_the_child(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    child = builders.with_parent(
        "child", "p", queue="elsewhere", payload=EVERY_BYTE, priority=3, delay_ms=5, ttl_ms=9,
        headers=b"\x00h", overrides=b"\xffo", reuse=frozenset({State.FAILED}), creator=lease.ref,
    )  # fmt: skip
    note = Note(job_id="j", fence=lease.fence, kind=NoteKind.OFFER, queue="children", child=child)

    await queue.note(note)

    (entry,) = await queue.backend.outbox(queue.name, ALL)
    assert entry.job == child


@pytest.mark.promise("P-11")
async def test_notes_about_nothing_are_answered_with_nothing(queue: QueueUnderTest) -> None:
    assert list(await queue.backend.note(queue.name, [])) == []


@pytest.mark.promise("P-42", "P-110")
async def test_a_child_that_no_queue_would_take_is_refused_at_its_offer(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    with pytest.raises(InvalidJobId):
        await queue.note(builders.offer(lease, child_id="a\nb"))
    with pytest.raises(InvalidQueueName):
        await queue.note(builders.offer(lease, queue=""))

    assert await queue.backend.outbox(queue.name, ALL) == ()
