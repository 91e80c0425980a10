"""Wake-ups across processes. A second backend object hears as another process does: through the file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.backends.sqlite.accepting import enqueue
from leasemq.backends.sqlite.listening import SqliteListener
from leasemq.backends.sqlite.settling import settle
from leasemq.backends.sqlite.step import Step
from leasemq.backends.sqlite.watching import LOOK_SECONDS, QUICK_LOOK_SECONDS, Pace, Watch
from leasemq.clock import boot_ms
from leasemq.protocol.model import Ref, Wake
from leasemq.testing.conformance import builders
from tests.backends.sqlite.conftest import Open, Peek

SOON_MS = 3_000


async def heard(listener: SqliteListener, wanted: Callable[[Wake], object]) -> Wake:
    """Wait until something that is wanted was heard."""
    until_ms = boot_ms() + SOON_MS
    while boot_ms() < until_ms:
        wake = await listener.wait(SOON_MS)
        if wanted(wake):
            return wake
    raise AssertionError(f"nothing of the kind was heard within {SOON_MS} ms")


async def hears_nothing(listener: SqliteListener, wait_ms: int = 60) -> bool:
    """Whether nothing is heard for several looks at the file."""
    return await listener.wait(wait_ms) == Wake()


@pytest.fixture
async def other(opened: Open) -> SqliteBackend:
    """Another process on the same file."""
    return await opened()


def damaged(step: Step) -> None:
    """Accept a job whose events cannot be read, in one step."""
    enqueue(step, "mail", [builders.new_job("unheard")])
    step.finish()
    step.connection.execute(
        "UPDATE leasemq_event SET entries = x'ff00' WHERE last_number = "
        "(SELECT max(last_number) FROM leasemq_event)"
    )


@pytest.mark.promise("P-83", "P-93")
async def test_a_job_enqueued_elsewhere_is_heard_within_milliseconds(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    async with backend.listen(["mail"]) as listener:
        await other.enqueue("mail", [builders.new_job("a")])
        started_ms = boot_ms()
        wake = await heard(listener, lambda wake: wake.queues)

    assert wake.queues == {"mail"}
    assert boot_ms() - started_ms < 1_000


@pytest.mark.promise("P-83")
async def test_what_waited_before_one_listens_is_no_news(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    await other.enqueue("mail", [builders.new_job("a")])

    async with backend.listen(["mail"]) as listener:
        assert await hears_nothing(listener)


@pytest.mark.promise("P-83")
async def test_other_queues_and_quiet_changes_wake_nobody(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    await other.enqueue("mail", [builders.new_job("a")])
    async with backend.listen(["mail"]) as listener:
        await other.enqueue("bulk", [builders.new_job("a")])
        await other.claim("mail", 1, 1_000, builders.claimant())
        await other.pause("mail")

        assert await hears_nothing(listener)


@pytest.mark.promise("P-83")
async def test_ones_own_job_is_heard_once(backend: SqliteBackend) -> None:
    async with backend.listen(["mail"]) as listener:
        await backend.enqueue("mail", [builders.new_job("a")])

        assert (await listener.wait(SOON_MS)).queues == {"mail"}
        assert await hears_nothing(listener)


@pytest.mark.promise("P-51")
async def test_a_cancellation_asked_for_elsewhere_is_heard(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    await backend.claim("mail", 1, 30_000, builders.claimant())
    async with backend.listen(["mail"]) as listener:
        await other.cancel("mail", ["a"])
        wake = await heard(listener, lambda wake: wake.cancels)

    assert wake.cancels == {Ref(queue="mail", id="a", generation=1)}


@pytest.mark.promise("P-52", "P-83")
async def test_a_queue_resumed_elsewhere_wakes_even_when_nothing_is_new(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    await other.enqueue("mail", [builders.new_job("a")])
    async with backend.listen(["mail"]) as listener:
        await other.pause("mail")
        await other.resume("mail")
        wake = await heard(listener, lambda wake: wake.queues)

    assert wake.queues == {"mail"}


@pytest.mark.promise("P-60", "P-61")
async def test_an_end_elsewhere_is_heard_by_those_who_wait_for_it(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    refs = [answer.ref for answer in await other.enqueue("mail", [builders.new_job(n) for n in "abc"])]
    async with backend.listen([]) as listener:
        listener.interest(refs[:2])
        listener.forget(refs[:1])
        leases = (await other.claim("mail", 3, 30_000, builders.claimant())).leases
        await other.settle("mail", [builders.complete(lease) for lease in leases])
        wake = await heard(listener, lambda wake: wake.ended)

    assert wake.ended == {refs[1]}


@pytest.mark.promise("P-60")
async def test_an_end_just_before_one_takes_an_interest_is_heard(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    (answer,) = await other.enqueue("mail", [builders.new_job("a")])
    (lease,) = (await other.claim("mail", 1, 30_000, builders.claimant())).leases
    async with backend.listen([]) as listener:
        await other.settle("mail", [builders.complete(lease)])
        listener.interest([answer.ref])  # the queue was not watched until now
        wake = await heard(listener, lambda wake: wake.ended)

    assert wake.ended == {answer.ref}


@pytest.mark.promise("P-60")
async def test_the_end_of_a_record_that_is_not_kept_is_heard(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    (answer,) = await other.enqueue("mail", [builders.new_job("a")])
    async with backend.listen(["mail"]) as listener:
        listener.interest([answer.ref])
        (lease,) = (await other.claim("mail", 1, 30_000, builders.claimant())).leases
        await other.settle("mail", [builders.complete(lease)])
        wake = await heard(listener, lambda wake: wake.ended)

    assert wake.ended == {answer.ref}


@pytest.mark.promise("P-60", "P-83")
async def test_events_that_were_trimmed_before_they_were_seen_are_made_up_for(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    (answer,) = await other.enqueue("mail", [builders.new_job("a")])
    (lease,) = (await other.claim("mail", 1, 30_000, builders.claimant())).leases
    async with backend.listen(["mail"]) as listener:
        listener.interest([answer.ref])

        def end_unseen(step: Step) -> None:  # in one commit, so that no look comes between
            settle(step, "mail", [builders.complete(lease)])
            step.finish()
            step.connection.execute("DELETE FROM leasemq_event")

        await other._write(end_unseen)
        wake = await heard(listener, lambda wake: wake.ended)

    assert wake.ended == {answer.ref}


@pytest.mark.promise("P-61")
async def test_five_thousand_waiters_share_one_look_at_the_file(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    refs = []
    for start in range(0, 5_000, 1_000):
        jobs = [builders.new_job(f"j{number}") for number in range(start, start + 1_000)]
        refs += [answer.ref for answer in await other.enqueue("mail", jobs)]
    async with backend.listen([]) as listener:
        listener.interest(refs)
        ended: set[Ref] = set()
        for _ in range(5):
            leases = (await other.claim("mail", 1_000, 30_000, builders.claimant())).leases
            await other.settle("mail", [builders.complete(lease) for lease in leases])
        until_ms = boot_ms() + SOON_MS
        while len(ended) < 5_000 and boot_ms() < until_ms:
            ended |= (await listener.wait(200)).ended

    assert ended == set(refs)


@pytest.mark.promise("P-62", "A-32")
async def test_events_added_elsewhere_are_heard_by_those_who_follow_their_queue(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    await other.enqueue("mail", [builders.new_job("a")])
    async with backend.listen([]) as listener:
        listener.follow(["mail"])
        await heard(listener, lambda wake: wake.changed)  # the queue was not watched until now
        await other.enqueue("bulk", [builders.new_job("a")])
        assert await hears_nothing(listener)
        await other.claim("mail", 1, 1_000, builders.claimant())
        wake = await heard(listener, lambda wake: wake.changed)
        await backend.reschedule("mail", ["a"], 1)  # it runs, so nothing changes
        assert await hears_nothing(listener)

    assert wake == Wake(changed=frozenset({"mail"}))


async def test_the_watch_ends_with_the_last_listener(backend: SqliteBackend) -> None:
    async with backend.listen(["mail"]):
        async with backend.listen(["bulk"]):
            pass
        watch = backend._lanes()._watch
        assert watch is not None
        assert watch._thread.is_alive()

    await asyncio.to_thread(watch._thread.join, 5)
    assert not watch._thread.is_alive()


@pytest.mark.promise("P-82", "P-83")
async def test_a_watch_that_lost_the_file_finds_what_it_missed(
    backend: SqliteBackend, other: SqliteBackend, peek: Peek
) -> None:
    async with backend.listen(["mail"]) as listener:
        await peek("ALTER TABLE leasemq_queue RENAME TO hidden")
        await listener.wait(50)
        await peek("ALTER TABLE hidden RENAME TO leasemq_queue")
        await other.enqueue("mail", [builders.new_job("a")])
        wake = await heard(listener, lambda wake: wake.queues)

    assert wake.queues == {"mail"}


async def test_inline_listeners_hear_at_once_and_have_no_thread(path: Path) -> None:
    backend = SqliteBackend(path, inline=True, sync="off")
    await backend.prepare()
    async with backend.listen(["mail"]) as listener:
        await backend.enqueue("mail", [builders.new_job("a")])
        assert (await listener.wait(0)).queues == {"mail"}
        assert backend._lanes()._watch is None

    await backend.close()


@pytest.mark.promise("P-83", "P-99")
async def test_an_unreadable_row_of_events_ends_no_wake_up(
    backend: SqliteBackend, other: SqliteBackend
) -> None:
    await other.enqueue("mail", [builders.new_job("before")])
    async with backend.listen(["mail", "bulk"]) as listener:
        await other._write(damaged)
        await heard(listener, lambda wake: "mail" in wake.queues)
        await other.enqueue("bulk", [builders.new_job("after")])
        await heard(listener, lambda wake: "bulk" in wake.queues)
        await other.enqueue("mail", [builders.new_job("after")])
        await heard(listener, lambda wake: "mail" in wake.queues)


@pytest.mark.promise("P-83", "P-99")
async def test_a_fault_of_the_watch_is_no_end_of_it(
    backend: SqliteBackend, other: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend.listen(["mail"]) as listener:
        failed = threading.Event()

        def fail(watch: Watch, step: Step, queue: str) -> None:
            failed.set()
            raise TypeError("planted")

        with monkeypatch.context() as planted:
            planted.setattr(Watch, "_heard", fail)
            await other.enqueue("mail", [builders.new_job("a")])
            assert await asyncio.to_thread(failed.wait, 10)

        await heard(listener, lambda wake: wake.queues)


def after_looks_in_vain(pace: Pace) -> None:
    """Look until it does so as seldom as can be."""
    for _ in range(1_000):
        pace.looked(woken=False)


@pytest.mark.promise("P-83")
def test_it_looks_often_after_work_that_came_now_and_then_and_seldomer_with_each_look_in_vain() -> None:
    pace = Pace()
    after_looks_in_vain(pace)
    assert pace.seconds == LOOK_SECONDS

    pace.looked(woken=True)

    assert pace.seconds == QUICK_LOOK_SECONDS
    pace.looked(woken=False)
    assert QUICK_LOOK_SECONDS < pace.seconds < 2 * QUICK_LOOK_SECONDS
    after_looks_in_vain(pace)
    assert pace.seconds == LOOK_SECONDS


@pytest.mark.promise("P-83")
def test_it_looks_seldom_where_work_comes_all_the_time() -> None:
    pace = Pace()
    after_looks_in_vain(pace)
    pace.looked(woken=True)

    pace.looked(woken=True)

    assert pace.seconds == LOOK_SECONDS
    pace.looked(woken=True)
    assert pace.seconds == LOOK_SECONDS
