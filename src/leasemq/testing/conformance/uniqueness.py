"""Unique keys: which enqueues they suppress, in which way, and in which step they are freed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from leasemq.backend import Backend
from leasemq.protocol.insight import Change, EventKind
from leasemq.protocol.model import (
    Acceptance,
    Enqueued,
    Keep,
    Settled,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS, new_job
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

SKIP = Unique(key="k")
UNTIL_START = Unique(key="k", until=UniqueUntil.START)
REPLACE = Unique(key="k", mode=UniqueMode.REPLACE)
DEBOUNCE = Unique(key="k", mode=UniqueMode.DEBOUNCE, window_ms=5 * SECOND_MS)
THROTTLE = Unique(key="k", mode=UniqueMode.THROTTLE, window_ms=HOUR_MS)
MODES = {"skip": SKIP, "replace": REPLACE, "debounce": DEBOUNCE, "throttle": THROTTLE}


async def _add(queue: QueueUnderTest, job_id: str, unique: Unique = SKIP, payload: bytes = b"") -> Enqueued:
    (answer,) = await queue.enqueue(job_id, unique=unique, payload=payload or job_id.encode())
    return answer


@pytest.mark.promise("P-41", "A-6")
async def test_a_held_key_skips_and_answers_the_holder(queue: QueueUnderTest) -> None:
    first = await _add(queue, "a")

    second = await _add(queue, "b")

    assert (second.acceptance, second.ref, second.state) == (Acceptance.SKIPPED, first.ref, State.WAITING)
    assert await queue.state("b") is None
    assert (await queue.counts()).accepted == 1


@pytest.mark.promise("P-41", "A-6")
@pytest.mark.parametrize("unique", MODES.values(), ids=MODES.keys())
async def test_twenty_enqueues_under_one_key_at_once_leave_one_job(
    queue: QueueUnderTest, second: Backend, unique: Unique
) -> None:
    views = [queue.backend, second]

    answers = await asyncio.gather(
        *(
            views[number % 2].enqueue(queue.name, [new_job(f"j{number}", unique=unique)])
            for number in range(20)
        )
    )

    assert sum(answer.created for (answer,) in answers) == 1
    assert len({answer.ref for (answer,) in answers}) == 1
    assert (await queue.counts()).accepted == 1


@pytest.mark.promise("P-41")
async def test_keys_belong_to_their_queue_and_differ_from_ids(queue: QueueUnderTest) -> None:
    await _add(queue, "a")

    (elsewhere,) = await queue.backend.enqueue("other", [new_job("b", unique=SKIP)])
    (named_like_it,) = await queue.enqueue("k")

    assert elsewhere.created
    assert named_like_it.created


@pytest.mark.promise("P-41", "P-40")
async def test_the_repeat_of_the_holder_itself_is_existing(queue: QueueUnderTest) -> None:
    await _add(queue, "a")

    assert (await _add(queue, "a")).acceptance is Acceptance.EXISTING


@pytest.mark.promise("P-41", "A-6")
async def test_throttle_lets_one_through_per_window_whatever_becomes_of_it(queue: QueueUnderTest) -> None:
    await queue.finish("a", unique=THROTTLE)

    within = await _add(queue, "b", THROTTLE)
    queue.clock.advance(HOUR_MS)
    after = await _add(queue, "c", THROTTLE)

    assert (within.acceptance, within.state) == (Acceptance.SKIPPED, State.COMPLETED)
    assert after.created


@pytest.mark.promise("P-41")
async def test_a_throttled_key_outlives_its_holders_record(queue: QueueUnderTest) -> None:
    await queue.finish("a", unique=THROTTLE, keep=Keep(record_ms=0))

    answer = await _add(queue, "b", THROTTLE)

    assert (answer.acceptance, answer.ref.id, answer.state) == (Acceptance.SKIPPED, "a", None)


@pytest.mark.promise("P-41")
async def test_a_window_frees_the_key_at_the_latest(queue: QueueUnderTest) -> None:
    windowed = Unique(key="k", window_ms=HOUR_MS)
    await _add(queue, "a", windowed)
    queue.clock.advance(HOUR_MS - 1)
    assert not (await _add(queue, "b", windowed)).created
    queue.clock.advance(1)

    assert (await _add(queue, "b", windowed)).created


@pytest.mark.promise("P-41", "P-12")
async def test_a_look_at_a_key_whose_window_is_over_changes_nothing(queue: QueueUnderTest) -> None:
    await _add(queue, "a", THROTTLE)
    queue.clock.advance(HOUR_MS)
    await queue.backend.standing(queue.name, "a")
    queue.clock.step(-1)

    assert (await _add(queue, "b", THROTTLE)).acceptance is Acceptance.SKIPPED


@pytest.mark.promise("P-41")
async def test_the_end_of_an_old_holder_does_not_free_a_key_that_another_took(queue: QueueUnderTest) -> None:
    windowed = Unique(key="k", window_ms=HOUR_MS)
    old = await queue.start("old", unique=windowed)
    queue.clock.advance(HOUR_MS)
    await _add(queue, "new", windowed)

    await queue.settle(builders.complete(old))

    third = await _add(queue, "third", windowed)
    assert (third.acceptance, third.ref.id) == (Acceptance.SKIPPED, "new")


async def _complete(queue: QueueUnderTest) -> None:
    await queue.settle(builders.complete(await queue.lease()))


async def _fail(queue: QueueUnderTest) -> None:
    await queue.settle(builders.fail(await queue.lease()))


async def _cancel(queue: QueueUnderTest) -> None:
    await queue.cancel("a")


async def _acknowledge(queue: QueueUnderTest) -> None:
    lease = await queue.lease()
    await queue.cancel("a")
    await queue.settle(builders.acknowledge_cancel(lease))


async def _expire(queue: QueueUnderTest) -> None:
    queue.clock.advance(2 * HOUR_MS)
    await queue.backend.advance(queue.name, ALL)


async def _remove(queue: QueueUnderTest) -> None:
    await queue.remove("a")


async def _force(queue: QueueUnderTest) -> None:
    await queue.lease()
    await queue.remove("a", force=True)


async def _drain(queue: QueueUnderTest) -> None:
    await queue.backend.drain(queue.name, ALL)


async def _obliterate(queue: QueueUnderTest) -> None:
    await queue.backend.obliterate(queue.name, force=False)


Ends = Callable[[QueueUnderTest], Awaitable[None]]
ENDS: dict[str, Ends] = {
    "completed": _complete,
    "failed": _fail,
    "cancelled": _cancel,
    "cancelled while active": _acknowledge,
    "expired": _expire,
    "removed": _remove,
    "removed by force": _force,
    "drained": _drain,
    "obliterated": _obliterate,
}


@pytest.mark.promise("P-41", "A-6")
@pytest.mark.parametrize("until", [SKIP, UNTIL_START], ids=["until end", "until start"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
async def test_whatever_ends_the_holder_frees_its_key_in_the_same_step(
    queue: QueueUnderTest, end: Ends, until: Unique
) -> None:
    await queue.enqueue("a", unique=until, ttl_ms=HOUR_MS)

    await end(queue)

    assert (await _add(queue, "b", until)).created


@pytest.mark.promise("P-41")
async def test_until_start_frees_the_key_in_the_claim(queue: QueueUnderTest) -> None:
    await _add(queue, "a", UNTIL_START)
    assert not (await _add(queue, "b", UNTIL_START)).created
    await queue.lease()

    assert (await _add(queue, "b", UNTIL_START)).created


@pytest.mark.promise("P-41")
async def test_until_end_holds_the_key_while_the_job_runs(queue: QueueUnderTest) -> None:
    await queue.start("a", unique=SKIP)

    assert (await _add(queue, "b")).state is State.ACTIVE


@pytest.mark.promise("P-41", "B45")
@pytest.mark.parametrize("write", ["retry", "release", "snooze", "stall"])
async def test_a_job_that_comes_back_never_takes_its_key_again(queue: QueueUnderTest, write: str) -> None:
    lease = await queue.start("a", unique=UNTIL_START)
    if write == "stall":
        queue.fall_silent()
        await queue.sweep()
    else:
        await queue.settle(builders.SETTLEMENTS[write](lease))

    assert (await _add(queue, "b", UNTIL_START)).created


@pytest.mark.promise("P-41", "B45")
@pytest.mark.parametrize("write", ["retry", "release", "snooze"])
async def test_a_job_that_comes_back_still_holds_a_key_until_its_end(
    queue: QueueUnderTest, write: str
) -> None:
    await queue.settle(builders.SETTLEMENTS[write](await queue.start("a", unique=SKIP)))

    assert (await _add(queue, "b")).ref.id == "a"


@pytest.mark.promise("P-41", "P-54")
async def test_a_replay_takes_its_key_again(queue: QueueUnderTest) -> None:
    await queue.die("a", unique=SKIP)
    await queue.replay("a")

    assert (await _add(queue, "b")).acceptance is Acceptance.SKIPPED


@pytest.mark.promise("P-41", "P-54")
async def test_a_replay_whose_key_is_held_is_refused_and_names_the_holder(queue: QueueUnderTest) -> None:
    await queue.die("a", unique=SKIP)
    holder = await _add(queue, "b")
    before = await queue.record("a")

    answer = await queue.replay("a")

    assert (answer.change, answer.holder, answer.state) == (Change.CONFLICT, holder.ref, State.FAILED)
    assert await queue.record("a") == before


@pytest.mark.promise("P-41", "P-54")
async def test_a_throttled_job_is_replayed_without_its_key(queue: QueueUnderTest) -> None:
    await queue.die("a", unique=THROTTLE)
    queue.clock.advance(HOUR_MS)
    holder = await _add(queue, "b", THROTTLE)
    queue.clock.advance(1)

    assert (await queue.replay("a")).change is Change.DONE
    await queue.settle(builders.complete(await queue.lease()))
    await queue.settle(builders.complete(await queue.lease()))

    again = await _add(queue, "c", THROTTLE)
    assert (again.acceptance, again.ref) == (Acceptance.SKIPPED, holder.ref)
    queue.clock.advance(HOUR_MS - 1)
    assert (await _add(queue, "d", THROTTLE)).created


@pytest.mark.promise("P-41", "P-110")
async def test_a_blocked_job_holds_its_key(queue: QueueUnderTest) -> None:
    await queue.put(builders.with_parent("a", "p", unique=SKIP))

    answer = await _add(queue, "b")

    assert (answer.acceptance, answer.state) == (Acceptance.SKIPPED, State.BLOCKED)


@pytest.mark.promise("P-41")
async def test_two_jobs_of_one_batch_share_a_key(queue: QueueUnderTest) -> None:
    answers = await queue.put(new_job("a", unique=SKIP), new_job("b", unique=SKIP), new_job("c"))

    assert [answer.acceptance for answer in answers] == ["created", "skipped", "created"]
    assert answers[1].ref == answers[0].ref


@pytest.mark.promise("P-41", "P-30")
@pytest.mark.parametrize(
    "unique", [*list(MODES.values())[:3], UNTIL_START], ids=[*list(MODES)[:3], "until start"]
)
@pytest.mark.parametrize("keep", [Keep(), Keep(dead_ms=0)], ids=["kept", "not kept"])
async def test_a_holder_past_its_ttl_makes_way_before_any_sweep(
    queue: QueueUnderTest, unique: Unique, keep: Keep
) -> None:
    await queue.enqueue("a", unique=unique, ttl_ms=SECOND_MS, delay_ms=HOUR_MS, keep=keep)
    await _add(queue, "merged", unique)
    queue.clock.advance(SECOND_MS)

    fresh = new_job("b", unique=unique)
    answers = await queue.put(fresh, fresh, new_job("a"), new_job("c", unique=unique))

    kept = Acceptance.CREATED if keep.dead_ms == 0 else Acceptance.EXISTING
    assert [one.acceptance for one in answers[:3]] == [Acceptance.CREATED, Acceptance.EXISTING, kept]
    assert answers[3].ref.id == "b"
    assert await queue.state("a") is (State.WAITING if keep.dead_ms == 0 else State.EXPIRED)
    assert EventKind.EXPIRED in await queue.story("a")
    assert await queue.state("b") in (State.WAITING, State.SCHEDULED)


@pytest.mark.promise("P-41", "P-30")
async def test_a_throttled_key_is_not_freed_by_its_holder_s_ttl(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", unique=THROTTLE, ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)

    answer = await _add(queue, "b", THROTTLE)

    assert (answer.acceptance, answer.state) == (Acceptance.SKIPPED, State.EXPIRED)


@pytest.mark.promise("P-41", "P-11")
async def test_a_stale_settlement_frees_no_key(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", unique=SKIP)
    stale = await queue.stall_once()

    assert await queue.settle(builders.complete(stale)) is Settled.LOST
    assert (await _add(queue, "b")).acceptance is Acceptance.SKIPPED
