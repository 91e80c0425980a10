"""Reuse: a new generation under an ended id has clean counters and larger fences."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import TERMINAL, Acceptance, Enqueued, Settled, State, Unique, UniqueMode
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

ANY_END = frozenset(TERMINAL)


async def _reuse(
    queue: QueueUnderTest, states: frozenset[State] = ANY_END, *, request: int = 0, **fields: object
) -> Enqueued:
    (answer,) = await queue.enqueue("j", reuse=states, request=request, **fields)
    return answer


async def _end(queue: QueueUnderTest, state: State) -> None:
    match state:
        case State.COMPLETED:
            await queue.finish()
        case State.FAILED:
            await queue.die()
        case State.CANCELLED:
            await queue.enqueue("j")
            await queue.cancel()
        case _:
            await queue.enqueue("j", ttl_ms=1)
            queue.clock.advance(2)
            await queue.backend.advance(queue.name, ALL)
    assert await queue.state() is state


@pytest.mark.promise("P-44", "E-7", "B45")
@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_an_ended_id_can_be_used_again_when_its_state_is_allowed(
    queue: QueueUnderTest, state: State
) -> None:
    await _end(queue, state)

    refused = await _reuse(queue, ANY_END - {state})
    answer = await _reuse(queue, frozenset({state}), payload=b"second life")

    assert refused.acceptance is Acceptance.EXISTING
    assert (answer.created, answer.ref.generation, answer.state) == (True, 2, State.WAITING)
    assert (await queue.record()).payload == b"second life"


@pytest.mark.promise("P-44", "E-7")
async def test_a_new_generation_has_clean_counters_and_no_past(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.note(builders.progress(lease))
    await queue.note(builders.checkpoint(lease))
    await queue.settle(builders.retry(lease))
    await queue.settle(builders.fail(await queue.lease()))

    await _reuse(queue)

    record = await queue.record()
    assert (record.attempts, record.failures, record.stalls, record.replays) == (0, 0, 0, 0)
    assert (record.history, record.refused, record.error, record.result) == ((), (), None, None)
    assert (record.progress, record.checkpoint, record.ended_ms) == (None, None, None)


@pytest.mark.promise("P-44", "P-10")
async def test_fences_grow_across_generations_even_when_the_clock_went_back(queue: QueueUnderTest) -> None:
    first = await queue.finish()
    queue.clock.step(-HOUR_MS)

    await _reuse(queue)
    second = await queue.lease()

    assert second.fence.number == first.fence.number + 1


@pytest.mark.promise("P-44", "E-7")
@pytest.mark.parametrize("state", [State.SCHEDULED, State.WAITING, State.ACTIVE, State.BLOCKED])
async def test_an_id_that_has_not_ended_is_never_replaced(queue: QueueUnderTest, state: State) -> None:
    parents = builders.with_parent("j", "p").parents if state is State.BLOCKED else ()
    await queue.enqueue("j", parents=parents, delay_ms=HOUR_MS if state is State.SCHEDULED else 0)
    if state is State.ACTIVE:
        await queue.lease()

    answer = await _reuse(queue)

    assert (answer.acceptance, answer.state, answer.ref.generation) == (Acceptance.EXISTING, state, 1)


@pytest.mark.promise("P-44", "P-43")
async def test_a_replaced_record_counts_as_removed(queue: QueueUnderTest) -> None:
    await queue.finish()

    await _reuse(queue)

    counts = await queue.counts()
    assert (counts.accepted, counts.removed, counts.completed, counts.waiting) == (2, 1, 0, 1)


@pytest.mark.promise("P-44", "P-62")
async def test_events_tell_the_generations_apart(queue: QueueUnderTest) -> None:
    await queue.finish()
    await _reuse(queue)

    started = [event for event in await queue.events("j") if event.kind is EventKind.ENQUEUED]

    assert [event.ref.generation for event in started] == [1, 2]


@pytest.mark.promise("P-44", "P-03")
async def test_the_settlement_of_an_old_generation_is_gone_and_leaves_the_new_one_alone(
    queue: QueueUnderTest,
) -> None:
    lease = await queue.start()
    settlement = builders.complete(lease)
    await queue.settle(settlement)
    await _reuse(queue)
    before = await queue.record()

    assert await queue.settle(settlement) is Settled.GONE
    assert await queue.record() == before


@pytest.mark.promise("P-44", "P-03")
async def test_a_reuse_repeated_with_its_request_is_not_doubled_even_after_the_end(
    queue: QueueUnderTest,
) -> None:
    await queue.finish()
    first = await _reuse(queue, request=77)
    await queue.settle(builders.complete(await queue.lease()))

    again = await _reuse(queue, request=77)

    assert (again.acceptance, again.ref) == (Acceptance.EXISTING, first.ref)
    assert (await _reuse(queue, request=78)).ref.generation == 3


@pytest.mark.promise("P-44", "P-41")
async def test_a_reuse_whose_unique_key_another_holds_keeps_the_old_record(queue: QueueUnderTest) -> None:
    await queue.finish()
    await queue.enqueue("holder", unique=Unique(key="k"))

    answer = await _reuse(queue, unique=Unique(key="k"))

    assert (answer.acceptance, answer.ref.id) == (Acceptance.SKIPPED, "holder")
    assert await queue.state() is State.COMPLETED


@pytest.mark.promise("P-44", "P-41")
async def test_reuse_of_an_id_that_was_merged_does_not_touch_the_job_it_was_merged_into(
    queue: QueueUnderTest,
) -> None:
    replace = Unique(key="k", mode=UniqueMode.REPLACE)
    await queue.enqueue("holder", unique=replace)
    await queue.enqueue("j", unique=replace)
    await queue.settle(builders.complete(await queue.lease()))

    answer = await _reuse(queue)

    assert (answer.created, answer.ref.generation) == (True, 1)
    assert await queue.state("holder") is State.COMPLETED


@pytest.mark.promise("P-44", "P-41", "P-40")
async def test_an_alias_forgotten_by_an_earlier_job_of_the_batch_is_not_followed(
    queue: QueueUnderTest,
) -> None:
    unique = Unique(key="k", mode=UniqueMode.REPLACE)
    await queue.finish("merged")
    await queue.enqueue("holder", unique=unique)
    await queue.enqueue("merged", unique=unique, reuse=ANY_END)
    await queue.settle(builders.complete(await queue.lease()))

    holder, merged = await queue.put(builders.new_job("holder", reuse=ANY_END), builders.new_job("merged"))

    assert (holder.created, holder.ref.generation) == (True, 2)
    assert (merged.acceptance, merged.ref.id) == (Acceptance.EXISTING, "merged")


@pytest.mark.promise("P-44", "P-40")
async def test_an_id_whose_record_was_removed_starts_over_at_its_first_generation(
    queue: QueueUnderTest,
) -> None:
    await queue.finish()
    await queue.remove()

    (answer,) = await queue.enqueue("j")

    assert (answer.created, answer.ref.generation) == (True, 1)


@pytest.mark.promise("P-01", "P-40", "P-44")
async def test_a_merged_id_whose_own_job_lives_again_stands_for_that_job(queue: QueueUnderTest) -> None:
    unique = Unique(key="k", mode=UniqueMode.REPLACE)
    await queue.die("merged")
    await queue.enqueue("holder", unique=unique)
    await queue.enqueue("merged", unique=unique, reuse=ANY_END)
    await queue.settle(builders.complete(await queue.lease()))
    await queue.replay("merged")

    (answer,) = await queue.enqueue("merged", reuse=frozenset({State.COMPLETED}))

    assert (answer.acceptance, answer.ref.id, answer.state) == (Acceptance.EXISTING, "merged", State.WAITING)
    assert (await queue.counts()).removed == 0
