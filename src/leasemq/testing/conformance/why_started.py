"""Why a job that started is where it is, ended as it did, or ran again; and whom an id stands for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leasemq.protocol.model import Acceptance, Lease, Settled, Settlement, State, Unique, UniqueMode
from leasemq.protocol.reasons import Why
from leasemq.protocol.times import iso_utc
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.asking import fail_with_error, first, kinds, reasons, show
from leasemq.testing.conformance.builders import LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest

# ---- running


@pytest.mark.promise("P-116", "P-64")
async def test_why_names_who_runs_a_job_and_until_when(queue: QueueUnderTest) -> None:
    await show(queue)
    lease = await queue.start()
    queue.clock.advance(SECOND_MS)
    await queue.renew(lease)
    queue.clock.advance(SECOND_MS)

    reason = await first(queue)

    now = queue.clock()
    assert reason.kind is Why.LEASED
    assert reason.values == {
        "worker": "A",
        "incarnation": "A-1",
        "host": "box",
        "pid": ord("A"),
        "attempt": 1,
        "fence": lease.fence.number,
        "claimed_at": iso_utc(now - 2 * SECOND_MS),
        "renewed_at": iso_utc(now - SECOND_MS),
        "lease_until": iso_utc(now - SECOND_MS + LEASE_MS),
        "lease_left_s": (LEASE_MS - SECOND_MS) / 1_000,
    }
    assert await kinds(queue) == [Why.LEASED]


@pytest.mark.promise("P-116", "P-84")
async def test_a_holder_that_is_not_in_the_worker_list_is_named_without_its_host(
    queue: QueueUnderTest,
) -> None:
    await queue.start()

    reason = await first(queue)

    assert (reason.values["worker"], reason.values["host"], reason.values["pid"]) == ("A", None, None)
    assert "not in the worker list" in reason.says


@pytest.mark.promise("P-116", "P-51")
async def test_why_says_of_a_running_job_that_it_is_to_be_cancelled(queue: QueueUnderTest) -> None:
    await queue.start()
    await queue.cancel()

    assert await kinds(queue) == [Why.LEASED, Why.CANCELLING]


@pytest.mark.promise("P-116", "P-02")
async def test_why_says_that_the_lease_of_a_silent_holder_is_over_and_who_recovers_it(
    queue: QueueUnderTest,
) -> None:
    await show(queue, "B")
    lease = await queue.start()
    queue.clock.advance(LEASE_MS - 1)
    assert (await first(queue)).kind is Why.LEASED
    queue.clock.advance(1)

    reason = await first(queue)

    assert reason.kind is Why.LAPSED
    assert (reason.values["worker"], reason.values["fence"]) == ("A", lease.fence.number)
    assert (reason.values["stalls"], reason.values["max_stalls"]) == (0, 2)
    assert "stall 1 of at most 2 and then gives it to another" in reason.says
    assert await kinds(queue) == [Why.LAPSED]
    await queue.backend.retire("B-1")
    assert await kinds(queue) == [Why.LAPSED, Why.NO_WORKER]


# ---- over


@pytest.mark.promise("P-116")
@pytest.mark.parametrize(
    ("settle", "kind"),
    [
        (builders.complete, Why.COMPLETED),
        (builders.fail, Why.FAILED),
        (builders.acknowledge_cancel, Why.CANCELLED),
    ],
)
async def test_why_tells_how_a_job_ended(
    queue: QueueUnderTest, settle: Callable[[Lease], Settlement], kind: Why
) -> None:
    lease = await queue.start()
    if kind is Why.CANCELLED:
        await queue.cancel()
    assert await queue.settle(settle(lease)) is Settled.APPLIED

    assert await kinds(queue) == [kind]
    reason = await first(queue)
    assert (reason.values["ended_at"], reason.values["attempts"]) == (iso_utc(queue.clock()), 1)


@pytest.mark.promise("P-116", "P-23")
async def test_why_tells_of_a_job_that_failed_because_it_stalled_too_often(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=1)
    await queue.stall_once()
    await queue.stall_once(takes_suspect=True)

    failed, stalled = await reasons(queue)

    assert (failed.kind, failed.values["reason"], failed.values["stalls"]) == (Why.FAILED, "stalled", 2)
    assert (stalled.kind, stalled.values["last_attempt"]) == (Why.AFTER_STALL, 1)


@pytest.mark.promise("P-116", "P-41", "P-54")
async def test_why_names_the_job_that_would_refuse_a_replay(queue: QueueUnderTest) -> None:
    unique = Unique(key="k")
    await queue.die("j", unique=unique)
    assert (await first(queue)).values["replay_refused_by"] is None

    await queue.enqueue("next", unique=unique)

    reason = await first(queue)
    assert reason.values["replay_refused_by"] == "mail/next"
    assert "mail/next" in reason.remedy


# ---- whom the id stands for


@pytest.mark.promise("P-116")
async def test_why_says_that_it_knows_no_such_job_and_which_queue_does(queue: QueueUnderTest) -> None:
    other = QueueUnderTest(backend=queue.backend, clock=queue.clock, name="other")
    await queue.enqueue("another")
    nowhere = await reasons(queue)
    await other.enqueue("j")
    elsewhere = await reasons(queue)

    assert [one.kind for one in (*nowhere, *elsewhere)] == [Why.UNKNOWN, Why.UNKNOWN]
    assert nowhere[0].values == {"queue": "mail", "id": "j", "elsewhere": []}
    assert elsewhere[0].values == {"queue": "mail", "id": "j", "elsewhere": ["other"]}


@pytest.mark.promise("P-116", "P-44")
async def test_why_says_that_a_newer_generation_has_the_id(queue: QueueUnderTest) -> None:
    await queue.finish()
    await queue.enqueue("j", reuse=frozenset({State.COMPLETED}))

    old, new, never = [(await first(queue, generation=number)) for number in (1, 2, 3)]

    assert (old.kind, old.values) == (Why.REPLACED, {"generation": 1, "newest_generation": 2})
    assert (new.kind, never.kind) == (Why.NO_WORKER, Why.UNKNOWN)


@pytest.mark.promise("P-116", "P-41")
@pytest.mark.parametrize("mode", [UniqueMode.REPLACE, UniqueMode.DEBOUNCE])
async def test_why_names_the_job_that_an_enqueue_was_merged_into(
    queue: QueueUnderTest, mode: UniqueMode
) -> None:
    unique = Unique(key="k", mode=mode, window_ms=SECOND_MS)
    await queue.enqueue("holder", unique=unique, delay_ms=SECOND_MS)
    (answer,) = await queue.enqueue("j", unique=unique)

    by_id = await reasons(queue)
    by_handle = await reasons(queue, "holder", acceptance=answer.acceptance)

    assert [one.kind for one in by_id] == [Why.MERGED, Why.NOT_DUE, Why.NO_WORKER]
    assert by_id[0].values == {"into": "mail/holder", "unique_key": "k"}
    assert [one.kind for one in by_handle] == [Why.MERGED, Why.NOT_DUE, Why.NO_WORKER]


@pytest.mark.promise("P-116", "P-41")
async def test_why_names_the_holder_for_whose_sake_an_enqueue_was_skipped(queue: QueueUnderTest) -> None:
    unique = Unique(key="k")
    await queue.enqueue("holder", unique=unique)
    (answer,) = await queue.enqueue("j", unique=unique)
    assert answer.acceptance is Acceptance.SKIPPED

    skipped, *others = await reasons(queue, answer.ref.id, acceptance=answer.acceptance)

    assert (skipped.kind, skipped.values) == (Why.SKIPPED, {"holder": "mail/holder", "unique_key": "k"})
    assert [one.kind for one in others] == [Why.NO_WORKER]
    assert await kinds(queue, "j") == [Why.UNKNOWN]


# ---- more than once


@pytest.mark.promise("P-116", "P-14", "P-64")
async def test_why_says_that_a_job_ran_twice_after_a_stall_and_what_was_refused_then(
    queue: QueueUnderTest,
) -> None:
    await queue.enqueue("j")
    lost = await queue.stall_once()
    await queue.settle(builders.complete(await queue.lease(worker="B")))
    assert await queue.settle(builders.complete(lost)) is Settled.LOST

    stall, state, refused = await reasons(queue)

    assert state.kind is Why.COMPLETED
    assert stall.kind is Why.AFTER_STALL
    assert [one.kind.is_about_reruns for one in (state, stall, refused)] == [False, True, True]
    told = {name: stall.values[name] for name in ("last_attempt", "worker", "incarnation", "fence")}
    assert told == {"last_attempt": 1, "worker": "A", "incarnation": "A-1", "fence": lost.fence.number}
    assert refused.kind is Why.WRITES_REFUSED
    assert refused.values == {
        "refused": 1,
        "write": "completed",
        "fence": lost.fence.number,
        "at": iso_utc(queue.clock()),
    }


@pytest.mark.promise("P-116", "P-81")
async def test_why_tells_of_a_job_that_was_given_back_at_a_shutdown(queue: QueueUnderTest) -> None:
    await show(queue, "B")
    await queue.settle(builders.release(await queue.start()))

    assert await kinds(queue) == [Why.NEXT, Why.AFTER_RELEASE]


@pytest.mark.promise("P-116", "P-54")
async def test_why_tells_each_run_more_in_order_and_like_ones_together(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=5)
    for _ in range(3):
        await queue.settle(fail_with_error(await queue.lease(), 0))
    await queue.settle(builders.release(await queue.lease()))
    await queue.stall_once()
    await queue.settle(builders.fail(await queue.lease()))
    await queue.replay()
    await queue.settle(fail_with_error(await queue.lease(), 0))
    await queue.settle(builders.complete(await queue.lease()))

    *again, state = await reasons(queue)

    assert state.kind is Why.COMPLETED
    assert [(one.kind, one.values.get("first_attempt"), one.values.get("last_attempt")) for one in again] == [
        (Why.AFTER_FAILURE, 1, 3),
        (Why.AFTER_RELEASE, 4, 4),
        (Why.AFTER_STALL, 5, 5),
        (Why.AFTER_REPLAY, None, None),
        (Why.AFTER_FAILURE, 1, 1),
    ]
