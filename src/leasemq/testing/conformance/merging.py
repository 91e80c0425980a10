"""Replace and debounce: which holder takes the arguments of a later call, and when it is due then."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import Acceptance, Enqueued, State, Unique, UniqueMode
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

REPLACE = Unique(key="k", mode=UniqueMode.REPLACE)
DEBOUNCE = Unique(key="k", mode=UniqueMode.DEBOUNCE, window_ms=5 * SECOND_MS)
THROTTLE = Unique(key="k", mode=UniqueMode.THROTTLE, window_ms=HOUR_MS)


async def _add(queue: QueueUnderTest, job_id: str, unique: Unique, payload: bytes = b"") -> Enqueued:
    (answer,) = await queue.enqueue(job_id, unique=unique, payload=payload or job_id.encode())
    return answer


@pytest.mark.promise("P-41", "A-6")
async def test_replace_gives_a_waiting_holder_the_new_payload_in_its_old_place(queue: QueueUnderTest) -> None:
    await _add(queue, "a", REPLACE, b"old")
    await queue.enqueue("behind")

    answer = await _add(queue, "b", REPLACE, b"new")

    assert (answer.acceptance, answer.ref.id, answer.state) == (Acceptance.REPLACED, "a", State.WAITING)
    assert (await queue.record("a")).payload == b"new"
    assert (await queue.story("a"))[-1] is EventKind.REPLACED
    assert await queue.claim_ids() == ["a", "behind"]


@pytest.mark.promise("P-41")
@pytest.mark.parametrize("unique", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_a_holder_that_has_started_keeps_its_payload(queue: QueueUnderTest, unique: Unique) -> None:
    lease = await queue.start("a", unique=unique, payload=b"old")

    answer = await _add(queue, "b", unique, b"new")

    assert (answer.acceptance, answer.ref, answer.state) == (Acceptance.SKIPPED, lease.ref, State.ACTIVE)
    assert (await queue.record("a")).payload == b"old"


@pytest.mark.promise("P-41", "P-03")
@pytest.mark.parametrize("unique", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_a_merge_repeated_after_a_lost_reply_changes_nothing(
    queue: QueueUnderTest, unique: Unique
) -> None:
    await _add(queue, "a", unique, b"old")
    await _add(queue, "b", unique, b"new")
    await _add(queue, "c", unique, b"newest")
    queue.clock.advance(1)
    before, told = await queue.record("a"), await queue.events()

    again = await _add(queue, "b", unique, b"new")

    assert (again.acceptance, again.ref.id) == (Acceptance.EXISTING, "a")
    assert await queue.record("a") == before
    assert await queue.events() == told


@pytest.mark.promise("P-41", "P-03")
async def test_an_id_merged_twice_stands_for_the_job_it_was_merged_into_last(queue: QueueUnderTest) -> None:
    anew = frozenset({State.CANCELLED})
    await queue.enqueue("first", unique=REPLACE)
    await queue.enqueue("merged", unique=REPLACE)
    await queue.cancel("first")
    await queue.enqueue("last", unique=REPLACE)
    await queue.enqueue("merged", unique=REPLACE, reuse=anew)
    await queue.remove("first")

    (answer,) = await queue.enqueue("merged", reuse=anew)

    assert (answer.acceptance, answer.ref.id) == (Acceptance.EXISTING, "last")


@pytest.mark.promise("P-41", "A-6")
async def test_debounce_pushes_the_due_time_a_window_from_now(queue: QueueUnderTest) -> None:
    await _add(queue, "a", DEBOUNCE, b"1")
    queue.clock.advance(3 * SECOND_MS)

    answer = await _add(queue, "b", DEBOUNCE, b"2")

    record = await queue.record("a")
    assert (answer.acceptance, answer.ref.id, answer.state) == (
        Acceptance.DEBOUNCED, "a", State.SCHEDULED,
    )  # fmt: skip
    assert (record.payload, record.due_ms) == (b"2", queue.clock() + 5 * SECOND_MS)


@pytest.mark.promise("P-41", "P-31")
async def test_a_debounced_job_runs_once_it_has_been_quiet_for_a_window(queue: QueueUnderTest) -> None:
    for number in range(4):
        await _add(queue, f"j{number}", DEBOUNCE)
        queue.clock.advance(3 * SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.claim_ids() == []

    queue.clock.advance(3 * SECOND_MS)
    await queue.backend.advance(queue.name, ALL)

    lease = await queue.lease()
    assert (lease.ref.id, lease.payload) == ("j0", b"j3")


@pytest.mark.promise("P-41", "P-31")
async def test_a_storm_puts_a_bounded_debounce_off_no_longer_than_its_bound(queue: QueueUnderTest) -> None:
    await queue.enqueue("j0", unique=DEBOUNCE, delay_ms=5 * SECOND_MS)
    first_ms = (await queue.record("j0")).created_ms
    for number in range(1, 5):
        queue.clock.advance(3 * SECOND_MS)
        await queue.enqueue(f"j{number}", unique=DEBOUNCE, at_most_ms=12 * SECOND_MS)
        due_ms = (await queue.record("j0")).due_ms - first_ms
        assert due_ms == min(5 + 3 * number, 12) * SECOND_MS

    assert await queue.state("j0") is State.WAITING
    queue.clock.advance(3 * SECOND_MS)
    (answer,) = await queue.enqueue("late", unique=DEBOUNCE, at_most_ms=12 * SECOND_MS)
    assert (answer.acceptance, answer.state) == (Acceptance.DEBOUNCED, State.WAITING)
    assert (await queue.record("j0")).due_ms == queue.clock()


@pytest.mark.promise("P-41")
async def test_a_blocked_job_is_debounced_within_its_bound(queue: QueueUnderTest) -> None:
    await queue.put(builders.with_parent("a", "p", unique=DEBOUNCE))
    queue.clock.advance(SECOND_MS)

    (answer,) = await queue.enqueue("b", unique=DEBOUNCE, at_most_ms=2 * SECOND_MS)

    assert answer.state is State.BLOCKED
    assert (await queue.record("a")).due_ms == queue.clock() + SECOND_MS


@pytest.mark.promise("P-41")
@pytest.mark.parametrize("unique", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_a_key_that_outlived_its_holder_gives_no_payload_to_another_job_of_that_id(
    queue: QueueUnderTest, unique: Unique
) -> None:
    await _add(queue, "a", THROTTLE)
    await queue.remove("a")
    await queue.enqueue("a", payload=b"its own")

    answer = await _add(queue, "b", unique, b"not its own")

    assert (answer.acceptance, answer.ref.id) == (Acceptance.SKIPPED, "a")
    assert (await queue.record("a")).payload == b"its own"
