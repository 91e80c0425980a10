"""How a job stands: one snapshot of what a claim would go by, and that a claim then does so."""

from __future__ import annotations

from random import Random

import pytest

from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Acceptance, Ref, State, Unique, UniqueMode
from leasemq.protocol.standing import AHEAD_LIMIT, Standing
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest

IDS = tuple(f"j{number}" for number in range(12))


async def standing(queue: QueueUnderTest, job_id: str = "j") -> Standing:
    """How a job stands that must be there."""
    found = await queue.backend.standing(queue.name, job_id)
    assert found is not None, f"job {job_id!r} is gone"
    return found


@pytest.mark.promise("P-116")
async def test_an_unknown_id_has_no_standing(queue: QueueUnderTest) -> None:
    assert await queue.backend.standing(queue.name, "j") is None
    await queue.enqueue("other")
    assert await queue.backend.standing(queue.name, "j") is None
    await queue.enqueue("j")
    await queue.remove("j")
    assert await queue.backend.standing(queue.name, "j") is None


@pytest.mark.promise("P-116")
async def test_a_standing_has_the_record_and_the_time(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=SECOND_MS)
    queue.clock.advance(5)

    found = await standing(queue)

    assert found.record == await queue.record()
    assert found.now_ms == await queue.backend.now_ms() == found.record.created_ms + 5
    assert not found.is_claimable


@pytest.mark.promise("P-116", "P-32")
async def test_ahead_are_those_that_a_claim_takes_first(queue: QueueUnderTest) -> None:
    await queue.enqueue("old")
    await queue.enqueue("high", priority=9)
    await queue.enqueue("j")
    await queue.enqueue("new")
    await queue.enqueue("low", priority=-1)
    await queue.enqueue("later", delay_ms=SECOND_MS)
    await queue.enqueue("stale", priority=9, ttl_ms=10)
    queue.clock.advance(10)

    ahead = {job_id: (await standing(queue, job_id)).ahead for job_id in ("high", "old", "j", "new", "low")}

    assert ahead == {"high": 0, "old": 1, "j": 2, "new": 3, "low": 4}
    assert await queue.claim_ids(3) == ["high", "old", "j"]


@pytest.mark.promise("P-116")
async def test_jobs_ahead_are_counted_up_to_a_bound(queue: QueueUnderTest) -> None:
    await queue.enqueue(*(f"first{number}" for number in range(AHEAD_LIMIT)), priority=1)
    await queue.enqueue("before", "j")

    assert (await standing(queue, "before")).ahead == AHEAD_LIMIT
    assert (await standing(queue)).ahead == AHEAD_LIMIT


@pytest.mark.promise("P-116", "P-52")
async def test_a_paused_queue_shows_in_a_standing(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    assert (await standing(queue)).is_claimable

    await queue.backend.pause(queue.name)
    assert ((await standing(queue)).paused, (await standing(queue)).is_claimable) == (True, False)

    await queue.backend.resume(queue.name)
    assert (await standing(queue)).is_claimable


@pytest.mark.promise("P-116", "P-30")
async def test_a_job_past_its_ttl_is_not_claimable_before_anybody_has_expired_it(
    queue: QueueUnderTest,
) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS - 1)
    assert (await standing(queue)).is_claimable
    queue.clock.advance(1)

    found = await standing(queue)

    assert (found.record.state, found.is_claimable) == (State.WAITING, False)
    assert await queue.claim_ids() == []


@pytest.mark.promise("P-116", "P-24")
async def test_a_standing_shows_who_runs_empty_for_a_suspect_and_then_who_runs_it(
    queue: QueueUnderTest,
) -> None:
    await queue.make_suspect("poison")
    await queue.enqueue("j", priority=5)
    first = await standing(queue, "poison")
    assert (first.suspect_waits, first.ahead, first.record.suspect, first.alone) == (True, 0, True, ())
    await queue.claim(0, worker="B")

    waiting = await standing(queue)
    assert (waiting.suspect_waits, waiting.ahead) == (True, 0)
    assert (waiting.reserved_for, waiting.reserved_until_ms) == ("B-1", waiting.now_ms + LEASE_MS)

    await queue.lease(worker="B", takes_suspect=True)

    running = await standing(queue)
    assert (running.suspect_waits, running.reserved_for, running.alone) == (False, "", ("B-1",))


@pytest.mark.promise("P-116", "P-24")
async def test_suspects_stand_in_a_lane_of_their_own(queue: QueueUnderTest) -> None:
    await queue.make_suspect("old")
    await queue.make_suspect("new")
    await queue.enqueue("j", priority=100)

    assert [(await standing(queue, job_id)).ahead for job_id in ("old", "new", "j")] == [0, 1, 0]


@pytest.mark.promise("P-116", "P-41")
async def test_an_id_that_was_merged_stands_as_the_job_that_it_was_merged_into(queue: QueueUnderTest) -> None:
    unique = Unique(key="k", mode=UniqueMode.REPLACE)
    await queue.enqueue("holder", unique=unique)
    (answer,) = await queue.enqueue("j", unique=unique)
    assert answer.acceptance is Acceptance.REPLACED

    merged, holder = await standing(queue), await standing(queue, "holder")

    ref = Ref(queue=queue.name, id="holder", generation=1)
    assert (merged.merged_into, merged.record.ref, merged.key_holder) == (ref, ref, ref)
    assert (holder.merged_into, holder.record.ref, holder.key_holder) == (None, ref, ref)


@pytest.mark.promise("P-116", "P-41", "P-44")
async def test_an_id_with_a_record_of_its_own_shows_that_and_what_it_was_merged_into_since(
    queue: QueueUnderTest,
) -> None:
    unique = Unique(key="k", mode=UniqueMode.REPLACE)
    await queue.finish("j")
    await queue.enqueue("holder", unique=unique)
    await queue.enqueue("j", unique=unique, reuse=frozenset({State.COMPLETED}))

    found = await standing(queue)

    assert found.record.ref == Ref(queue=queue.name, id="j", generation=1)
    assert found.merged_into == Ref(queue=queue.name, id="holder", generation=1)


@pytest.mark.promise("P-116", "P-41")
async def test_a_standing_names_who_holds_the_key_of_an_ended_job(queue: QueueUnderTest) -> None:
    unique = Unique(key="k")
    await queue.die("j", unique=unique)
    assert (await standing(queue)).key_holder is None

    await queue.enqueue("next", unique=unique)

    assert (await standing(queue)).key_holder == Ref(queue=queue.name, id="next", generation=1)


@pytest.mark.promise("P-116")
async def test_reading_a_standing_changes_nothing(queue: QueueUnderTest) -> None:
    await queue.make_suspect("poison")
    await queue.enqueue("j", ttl_ms=5)
    queue.clock.advance(5)
    before = (await queue.counts(), await queue.events(), await queue.record())

    for job_id in ("j", "poison", "nobody"):
        await queue.backend.standing(queue.name, job_id)

    assert (await queue.counts(), await queue.events(), await queue.record()) == before
    assert (await queue.claim(0, worker="B")).suspect_waits


@pytest.mark.promise("P-116", "P-32", "P-24", "P-30", "P-52")
@pytest.mark.parametrize("takes_suspect", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_a_claim_takes_just_the_jobs_whose_standing_says_so(
    queue: QueueUnderTest, seed: int, takes_suspect: bool
) -> None:
    chance = Random(seed)  # noqa: S311  draws a scenario, guards nothing
    await happen(queue, chance)
    found = {job_id: await queue.backend.standing(queue.name, job_id) for job_id in IDS}
    limit = chance.randrange(0, 5)
    claimable = [one for one in found.values() if one is not None and one.is_claimable]
    suspects = [one for one in claimable if one.record.suspect and one.ahead < 1]
    ordinary = [one for one in claimable if not one.record.suspect and one.ahead < limit]
    expected = (
        suspects if takes_suspect and suspects and limit else sorted(ordinary, key=lambda one: one.ahead)
    )

    claimed = await queue.claim(limit, worker="last", takes_suspect=takes_suspect)

    assert [lease.ref for lease in claimed.leases] == [one.record.ref for one in expected]


async def happen(queue: QueueUnderTest, chance: Random) -> None:
    """Let all sorts of things happen to a few jobs."""
    for job_id in IDS:
        ttl_ms, delay_ms = chance.choice([None, 40]), chance.choice([0, 0, 0, 60])
        await queue.enqueue(
            job_id, priority=chance.choice([-1, 0, 5]), ttl_ms=ttl_ms, delay_ms=delay_ms, max_stalls=1
        )
    for _ in range(chance.randrange(10, 30)):
        await _step(queue, chance)
    if chance.random() < 0.15:
        await queue.backend.pause(queue.name)


async def _step(queue: QueueUnderTest, chance: Random) -> None:
    job_id = chance.choice(IDS)
    match chance.randrange(7):
        case 0:
            queue.clock.advance(chance.choice([1, 20]))
        case 1:
            await queue.backend.advance(queue.name, chance.randrange(1, 4))
        case 2:
            await queue.backend.reprioritise(queue.name, [job_id], chance.choice([-1, 0, 5, 7]))
        case 3:
            assert await queue.cancel(job_id) in set(CancelAnswer)
        case 4:
            await queue.backend.reschedule(queue.name, [job_id], chance.choice([0, 15]))
        case 5:
            for lease in (await queue.claim(2, takes_suspect=chance.random() < 0.5, lease_ms=10)).leases:
                ends = (builders.retry, builders.release, builders.complete)
                if chance.random() < 0.7:
                    await queue.settle(chance.choice(ends)(lease))
        case _:
            await queue.sweep()
            await queue.backend.claim(queue.name, 0, LEASE_MS, builders.claimant("C"))
