"""Why a job has not started: the first reason in each staged situation, and that a claim agrees."""

from __future__ import annotations

from random import Random

import pytest

from leasemq.protocol.model import OnParentFailure
from leasemq.protocol.reasons import Why
from leasemq.protocol.times import iso_utc
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.asking import fail_with_error, first, kinds, reasons, show
from leasemq.testing.conformance.builders import LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.conformance.standing import IDS, happen


@pytest.mark.promise("P-116", "P-31")
async def test_why_names_when_a_delayed_job_is_due(queue: QueueUnderTest) -> None:
    await show(queue)
    await queue.enqueue("j", delay_ms=90 * SECOND_MS)
    due_ms = (await queue.record()).due_ms
    queue.clock.advance(30 * SECOND_MS)

    reason = await first(queue)

    assert reason.kind is Why.NOT_DUE
    assert reason.values == {"due_at": iso_utc(due_ms), "due_in_s": 60.0}
    assert "in 60 s" in reason.says
    assert await kinds(queue) == [Why.NOT_DUE]


@pytest.mark.promise("P-116", "P-31")
async def test_why_says_of_a_due_job_that_a_sweep_has_yet_to_put_it_in_line(queue: QueueUnderTest) -> None:
    await show(queue)
    await queue.enqueue("j", delay_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)

    assert await kinds(queue) == [Why.DUE]
    assert await queue.claim_ids() == []


@pytest.mark.promise("P-116", "P-31", "P-30")
async def test_why_warns_of_a_ttl_that_ends_before_the_job_is_due(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=2 * SECOND_MS, ttl_ms=SECOND_MS)

    assert (await kinds(queue))[:2] == [Why.NOT_DUE, Why.TTL_FIRST]


@pytest.mark.promise("P-116", "P-52")
@pytest.mark.parametrize("is_worked_on", [False, True])
async def test_why_names_the_pause_before_anything_else_that_holds_a_waiting_job(
    queue: QueueUnderTest, is_worked_on: bool
) -> None:
    if is_worked_on:
        await show(queue, running=2)
    await queue.enqueue("before", "j")
    await queue.backend.pause(queue.name)

    reason = await first(queue)

    assert (reason.kind, reason.remedy) == (Why.PAUSED, "leasemq resume mail")
    assert await kinds(queue) == ([Why.PAUSED] if is_worked_on else [Why.PAUSED, Why.NO_WORKER])


@pytest.mark.promise("P-116", "P-52", "P-31")
async def test_a_job_that_is_not_due_is_so_before_its_queue_is_paused(queue: QueueUnderTest) -> None:
    await show(queue)
    await queue.enqueue("j", delay_ms=SECOND_MS)
    await queue.backend.pause(queue.name)
    assert await kinds(queue) == [Why.NOT_DUE, Why.PAUSED]

    queue.clock.advance(SECOND_MS)

    assert await kinds(queue) == [Why.PAUSED, Why.DUE]


@pytest.mark.promise("P-116", "P-84")
async def test_why_says_that_no_live_worker_works_on_the_queue(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    nobody = await first(queue)
    await show(queue, "B", queues=("other", "third"))
    elsewhere = await first(queue)

    assert nobody.kind is elsewhere.kind is Why.NO_WORKER
    assert nobody.values == {"queue": "mail", "workers": 0, "queues_worked_on": []}
    assert elsewhere.values == {"queue": "mail", "workers": 1, "queues_worked_on": ["other", "third"]}


@pytest.mark.promise("P-116", "P-28")
async def test_why_says_that_no_worker_on_the_queue_knows_the_task(queue: QueueUnderTest) -> None:
    await show(queue, tasks=("tests.other",))
    await show(queue, "B", queues=("other",))
    await queue.enqueue("j")

    reason = await first(queue)

    assert reason.kind is Why.NO_TASK
    assert reason.values == {"task": "tests.send", "workers": 1, "tasks_known": ["tests.other"]}


@pytest.mark.promise("P-116")
async def test_a_worker_that_did_not_say_what_it_knows_may_know_the_task(queue: QueueUnderTest) -> None:
    await show(queue, tasks=())
    await queue.enqueue("j")

    assert await kinds(queue) == [Why.NEXT]


@pytest.mark.promise("P-116", "P-80")
async def test_why_says_that_all_slots_are_taken_and_who_comes_first(queue: QueueUnderTest) -> None:
    await show(queue, running=2)
    await show(queue, "B", slots=1, running=1)
    await show(queue, "C", tasks=("tests.other",))  # which has free slots, and cannot run it
    await queue.enqueue("before", "j")

    slots, behind = await reasons(queue)

    assert slots.kind is Why.NO_SLOT
    assert (slots.values["slots"], slots.values["workers"]) == (3, 2)
    assert (behind.kind, behind.values["ahead"]) == (Why.BEHIND, 1)


@pytest.mark.promise("P-116", "P-32")
async def test_why_counts_the_jobs_that_come_first_and_tells_who_is_next(queue: QueueUnderTest) -> None:
    await show(queue, running=1)
    await queue.enqueue("first", "second", "j")

    ahead = {job_id: await reasons(queue, job_id) for job_id in ("first", "second", "j")}

    assert [[reason.kind for reason in each] for each in ahead.values()] == [
        [Why.NEXT],
        [Why.BEHIND],
        [Why.BEHIND],
    ]
    assert ahead["first"][0].values == {"ahead": 0, "free_slots": 1, "workers": 1}
    assert [ahead[job_id][0].values["ahead"] for job_id in ("second", "j")] == [1, 2]


@pytest.mark.promise("P-116", "P-24")
async def test_why_says_that_a_suspect_waits_to_run_alone_and_who_runs_empty_for_it(
    queue: QueueUnderTest,
) -> None:
    await show(queue)
    await show(queue, "B", running=1)
    await queue.make_suspect()

    nobody = await first(queue)
    await queue.claim(0, worker="B")
    reserved = await first(queue)

    assert nobody.kind is reserved.kind is Why.SUSPECT
    assert nobody.values == {"stalls": 1, "max_stalls": 1}
    told = {name: reserved.values[name] for name in ("worker", "incarnation", "host", "pid")}
    assert told == {"worker": "B", "incarnation": "B-1", "host": "box", "pid": ord("B")}
    assert reserved.values["reserved_until"] == iso_utc(queue.clock() + LEASE_MS)
    queue.clock.advance(LEASE_MS)
    assert "worker" not in (await first(queue)).values


@pytest.mark.promise("P-116", "P-24")
async def test_why_says_that_the_only_worker_runs_empty_for_a_suspect_or_runs_one(
    queue: QueueUnderTest,
) -> None:
    await show(queue)
    await queue.make_suspect("poison")
    await queue.enqueue("j")
    assert await kinds(queue) == [Why.NEXT]

    await queue.claim(0)
    assert await kinds(queue) == [Why.MAKING_WAY, Why.NEXT]

    await queue.lease(takes_suspect=True)
    assert await kinds(queue) == [Why.MAKING_WAY, Why.NEXT]

    await show(queue, "B")
    assert await kinds(queue) == [Why.NEXT]


@pytest.mark.promise("P-116", "P-30")
async def test_why_says_that_a_waiting_jobs_time_to_live_is_over(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)
    assert await kinds(queue) == [Why.TTL_OVER, Why.NO_WORKER], "nobody there would write it down"

    await show(queue)
    (reason,) = await reasons(queue)

    assert (reason.kind, reason.values) == (Why.TTL_OVER, {"expired_at": iso_utc(queue.clock())})
    assert await queue.claim_ids() == []
    assert await kinds(queue) == [Why.EXPIRED]


@pytest.mark.promise("P-116", "P-21")
async def test_why_names_failures_due_time_and_last_error_of_a_job_that_is_tried_again(
    queue: QueueUnderTest,
) -> None:
    await show(queue)
    await queue.settle(fail_with_error(await queue.start(), SECOND_MS))
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, 10)
    await queue.settle(fail_with_error(await queue.lease(), 90 * SECOND_MS))

    reason = await first(queue)

    assert reason.kind is Why.BACK_OFF
    assert reason.values == {
        "due_at": iso_utc(queue.clock() + 90 * SECOND_MS),
        "due_in_s": 90.0,
        "failures": 2,
        "attempt": 2,
        "error_type": "smtplib.SMTPServerDisconnected",
        "error_message": "gone",
    }
    assert "SMTPServerDisconnected: gone" in reason.says
    assert await kinds(queue) == [Why.BACK_OFF, Why.AFTER_FAILURE]  # attempt 1; the state tells of the 2nd


@pytest.mark.promise("P-116", "P-99")
async def test_an_error_that_cannot_be_read_does_not_stop_the_explanation(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.start(), delay_ms=SECOND_MS))

    reason = await first(queue)

    assert (reason.kind, reason.values["error"]) == (Why.BACK_OFF, None)


@pytest.mark.promise("P-116", "P-28")
async def test_why_says_who_gave_a_job_back_that_it_could_not_run(queue: QueueUnderTest) -> None:
    await queue.settle(builders.release_unfit(await queue.start()))

    reason = await first(queue)

    assert (reason.kind, reason.values["worker"], reason.values["task"]) == (
        Why.GIVEN_BACK,
        "A",
        "tests.send",
    )


@pytest.mark.promise("P-116")
async def test_why_says_that_a_function_asked_to_run_later(queue: QueueUnderTest) -> None:
    await queue.settle(builders.snooze(await queue.start()))

    assert (await first(queue)).kind is Why.SNOOZED


@pytest.mark.promise("P-116", "P-110")
async def test_why_names_the_parents_that_a_blocked_job_waits_for_and_their_states(
    queue: QueueUnderTest,
) -> None:
    await show(queue)
    await queue.enqueue("slow", "gone")
    await queue.put(builders.with_parent("j", "slow", "gone", "never", on_failure=OnParentFailure.KEEP))
    await queue.die("dead", priority=9)
    await queue.remove("gone")

    reason = await first(queue)

    assert reason.kind is Why.BLOCKED
    assert reason.values == {
        "parents": 3,
        "states": {"mail/slow": "waiting", "mail/gone": "no record", "mail/never": "no record"},
    }


@pytest.mark.promise("P-116", "P-32", "P-24", "P-30", "P-52")
@pytest.mark.parametrize("takes_suspect", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_what_why_says_is_next_a_claim_takes_and_nothing_else(
    queue: QueueUnderTest, seed: int, takes_suspect: bool
) -> None:
    chance = Random(seed)  # noqa: S311  draws a scenario, guards nothing
    await happen(queue, chance)
    await show(queue, "last", slots=100)
    place: dict[str, int] = {}
    suspects: dict[str, int] = {}
    for job_id in IDS:
        said = {reason.kind: reason for reason in await reasons(queue, job_id)}
        ahead = said[Why.BEHIND].values["ahead"] if Why.BEHIND in said else 0
        if Why.SUSPECT in said:
            suspects[job_id] = int(str(ahead))
        elif Why.NEXT in said or Why.BEHIND in said:
            place[job_id] = int(str(ahead))
    limit = chance.randrange(1, 5)
    first_suspect = [job_id for job_id, ahead in suspects.items() if ahead == 0]
    in_line = sorted((job_id for job_id, ahead in place.items() if ahead < limit), key=lambda one: place[one])

    claimed = await queue.claim(limit, worker="last", takes_suspect=takes_suspect)

    assert [lease.ref.id for lease in claimed.leases] == (
        first_suspect if takes_suspect and suspects else in_line
    )
