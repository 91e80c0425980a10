"""Listeners: what happens from the moment one is opened is heard; pushes are hints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from leasemq.backend import Backend, Listener
from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Keep, Ref, State, Wake
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

PATIENCE_MS = 5_000  # real time; spent only where a push is lost
TRIES = 5  # a wake may be about something else


class Ear:
    """All that one listener has heard so far. Owned by its test."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.queues: set[str] = set()
        self.cancels: set[Ref] = set()
        self.ended: set[Ref] = set()
        self.changed: set[str] = set()

    async def hears(self, wanted: Callable[[Ear], bool]) -> bool:
        """Listen until it is heard; whether it was before a whole wait passed in silence."""
        for _ in range(TRIES):
            wake = await self._listener.wait(PATIENCE_MS)
            self.queues |= wake.queues
            self.cancels |= wake.cancels
            self.ended |= wake.ended
            self.changed |= wake.changed
            if wanted(self) or wake == Wake():
                break
        return wanted(self)


async def _hears_of(listener: Listener, name: str) -> bool:
    return await Ear(listener).hears(lambda ear: name in ear.queues)


async def _drained(listener: Listener) -> None:
    """Let the listener forget what it has heard so far."""
    for _ in range(TRIES):
        if await listener.wait(50) == Wake():
            return


@pytest.mark.promise("P-83", "A-19")
async def test_a_new_job_wakes_whoever_waits_for_its_queue(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    async with queue.backend.listen([queue.name]) as listener:
        waiting = asyncio.create_task(_hears_of(listener, queue.name))
        await asyncio.sleep(0)
        await queue.enqueue("j")

        assert await waiting


@pytest.mark.promise("P-83", "A-19")
async def test_a_job_that_came_between_an_empty_claim_and_the_wait_is_not_missed(
    queue: QueueUnderTest, second: Backend
) -> None:
    await queue.needs("push")
    async with queue.backend.listen([queue.name]) as listener:
        assert (await queue.claim()).leases == ()
        await second.enqueue(queue.name, [builders.new_job()])

        assert await _hears_of(listener, queue.name)


@pytest.mark.promise("P-83")
async def test_a_wait_without_news_ends_empty_after_its_time(queue: QueueUnderTest) -> None:
    async with queue.backend.listen([queue.name]) as listener:
        await _drained(listener)

        assert await listener.wait(1) == Wake()
        assert await listener.wait(0) == Wake()


@pytest.mark.promise("P-83", "P-52", "A-20")
async def test_resuming_a_queue_wakes_whoever_waits_for_it(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    await queue.enqueue("j")
    await queue.backend.pause(queue.name)
    async with queue.backend.listen([queue.name]) as listener:
        await queue.backend.resume(queue.name)

        assert await _hears_of(listener, queue.name)


async def _retry(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.lease()))


async def _release(queue: QueueUnderTest) -> None:
    await queue.settle(builders.release(await queue.lease()))


async def _stall(queue: QueueUnderTest) -> None:
    await queue.stall_once()


async def _advance(queue: QueueUnderTest) -> None:
    await queue.backend.reschedule(queue.name, ["j"], SECOND_MS)
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)


async def _replay(queue: QueueUnderTest) -> None:
    await queue.cancel()
    await queue.replay()


async def _put_off(queue: QueueUnderTest) -> None:
    await queue.backend.reschedule(queue.name, ["j"], SECOND_MS)


async def _retry_later(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.lease(), delay_ms=SECOND_MS))


async def _delayed(queue: QueueUnderTest) -> None:
    await queue.enqueue("delayed", delay_ms=SECOND_MS)


TO_BE_DONE = {
    "retried": _retry,
    "released": _release,
    "stalled": _stall,
    "promoted": _advance,
    "replayed": _replay,
    "put off": _put_off,
    "retried later": _retry_later,
    "delayed": _delayed,
}


@pytest.mark.promise("P-83", "P-31")
@pytest.mark.parametrize("happens", TO_BE_DONE.values(), ids=TO_BE_DONE.keys())
async def test_however_a_job_becomes_waiting_or_scheduled_its_queue_is_woken(
    queue: QueueUnderTest, happens: Callable[[QueueUnderTest], Awaitable[None]]
) -> None:
    await queue.needs("push")
    await queue.enqueue("j")
    async with queue.backend.listen([queue.name]) as listener:
        await _drained(listener)
        await happens(queue)

        assert await _hears_of(listener, queue.name)


@pytest.mark.promise("P-60", "P-61", "B57", "E-32")
@pytest.mark.parametrize("keep", [Keep(), Keep(record_ms=0)], ids=["kept", "keep 0"])
async def test_the_end_of_a_job_of_interest_is_heard(queue: QueueUnderTest, keep: Keep) -> None:
    await queue.needs("push")
    lease = await queue.start(keep=keep)
    async with queue.backend.listen([]) as listener:
        listener.interest([lease.ref])
        await queue.settle(builders.complete(lease))

        assert await Ear(listener).hears(lambda ear: lease.ref in ear.ended)


@pytest.mark.promise("P-60", "P-61")
@pytest.mark.parametrize("end", ["failed", "cancelled", "expired"])
async def test_every_kind_of_end_is_heard(queue: QueueUnderTest, end: str) -> None:
    await queue.needs("push")
    (answer,) = await queue.enqueue("j", ttl_ms=SECOND_MS)
    async with queue.backend.listen([]) as listener:
        listener.interest([answer.ref])
        if end == "failed":
            await queue.settle(builders.fail(await queue.lease()))
        elif end == "cancelled":
            await queue.cancel()
        else:
            queue.clock.advance(SECOND_MS + 1)
            await queue.backend.advance(queue.name, ALL)

        assert await Ear(listener).hears(lambda ear: answer.ref in ear.ended)


@pytest.mark.promise("P-61")
async def test_ends_that_nobody_has_an_interest_in_are_not_pushed(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    a, b, _ = [answer.ref for answer in await queue.enqueue("a", "b", "c")]
    async with queue.backend.listen([]) as listener:
        listener.interest([a, b])
        listener.forget([a])
        for lease in (await queue.claim(3)).leases:
            await queue.settle(builders.complete(lease))

        ear = Ear(listener)
        assert await ear.hears(lambda ear: b in ear.ended)
        assert ear.ended == {b}


@pytest.mark.promise("P-61", "P-44")
async def test_the_end_of_another_generation_is_not_the_one_waited_for(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    first = (await queue.finish()).ref
    (answer,) = await queue.enqueue("j", reuse=frozenset({State.COMPLETED}))
    async with queue.backend.listen([]) as listener:
        listener.interest([first, answer.ref])
        await queue.settle(builders.complete(await queue.lease()))

        ear = Ear(listener)
        assert await ear.hears(lambda ear: answer.ref in ear.ended)
        assert ear.ended == {answer.ref}


@pytest.mark.promise("P-51")
async def test_a_cancellation_is_pushed_to_whoever_works_on_the_queue(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    lease = await queue.start()
    async with queue.backend.listen([queue.name]) as listener:
        assert await queue.cancel() is CancelAnswer.CANCELLING

        assert await Ear(listener).hears(lambda ear: lease.ref in ear.cancels)


@pytest.mark.promise("P-83")
async def test_a_listener_hears_only_of_its_own_queues(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    async with queue.backend.listen(["other"]) as listener:
        await queue.enqueue("j")
        await queue.backend.enqueue("other", [builders.new_job()])

        ear = Ear(listener)
        assert await ear.hears(lambda ear: "other" in ear.queues)
        assert queue.name not in ear.queues


@pytest.mark.promise("P-83")
async def test_a_wake_is_a_hint_and_the_claim_decides(queue: QueueUnderTest, second: Backend) -> None:
    await queue.needs("push")
    async with queue.backend.listen([queue.name]) as listener, second.listen([queue.name]) as other:
        await queue.enqueue("j")
        assert await _hears_of(listener, queue.name)
        assert await _hears_of(other, queue.name)

        first = await queue.claim()
        late = await second.claim(queue.name, 1, LEASE_MS, builders.claimant("B"))

    assert (len(first.leases), len(late.leases)) == (1, 0)


async def _start(queue: QueueUnderTest) -> None:
    await queue.lease()


async def _complete(queue: QueueUnderTest) -> None:
    await queue.settle(builders.complete(await queue.lease()))


async def _cancel(queue: QueueUnderTest) -> None:
    await queue.cancel()


async def _ask_to_cancel(queue: QueueUnderTest) -> None:
    await queue.lease()
    await queue.cancel()


async def _remove(queue: QueueUnderTest) -> None:
    await queue.backend.remove(queue.name, ["j"], force=False)


MAKING_EVENTS = TO_BE_DONE | {
    "started": _start,
    "completed": _complete,
    "cancelled": _cancel,
    "asked to cancel": _ask_to_cancel,
    "removed": _remove,
}


@pytest.mark.promise("P-62", "A-32")
@pytest.mark.parametrize("happens", MAKING_EVENTS.values(), ids=MAKING_EVENTS.keys())
async def test_whoever_follows_a_queue_hears_that_it_has_events(
    queue: QueueUnderTest, happens: Callable[[QueueUnderTest], Awaitable[None]]
) -> None:
    await queue.needs("push")
    await queue.enqueue("j")
    async with queue.backend.listen([]) as listener:
        listener.follow([queue.name])
        await _drained(listener)
        await happens(queue)

        assert await Ear(listener).hears(lambda ear: queue.name in ear.changed)


@pytest.mark.promise("P-62")
async def test_an_event_between_following_and_the_wait_is_not_missed(
    queue: QueueUnderTest, second: Backend
) -> None:
    await queue.needs("push")
    async with queue.backend.listen([]) as listener:
        listener.follow([queue.name, "other"])
        await second.enqueue(queue.name, [builders.new_job()])

        assert await Ear(listener).hears(lambda ear: queue.name in ear.changed)


@pytest.mark.promise("P-61", "P-62")
async def test_a_queue_that_nobody_follows_any_more_is_not_told_of(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    async with queue.backend.listen([queue.name]) as listener:
        listener.follow([queue.name, "other"])
        listener.unfollow([queue.name])
        await queue.enqueue("j")
        await queue.backend.enqueue("other", [builders.new_job()])

        ear = Ear(listener)
        assert await ear.hears(lambda ear: "other" in ear.changed and queue.name in ear.queues)
        assert queue.name not in ear.changed


@pytest.mark.promise("P-62", "P-83")
async def test_what_makes_no_event_is_not_told_of(queue: QueueUnderTest) -> None:
    await queue.needs("push")
    await queue.enqueue("j")
    lease = await queue.lease()
    async with queue.backend.listen([]) as listener:
        listener.follow([queue.name, "other"])
        await _drained(listener)
        await queue.renew(lease)
        await queue.claim()
        await queue.backend.pause(queue.name)
        await queue.backend.resume(queue.name)
        await queue.backend.enqueue("other", [builders.new_job()])

        ear = Ear(listener)
        assert await ear.hears(lambda ear: "other" in ear.changed)
        assert ear.changed == {"other"}
