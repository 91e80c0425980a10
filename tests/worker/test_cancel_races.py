"""Cancelling jobs at the very moment at which workers take them: each has one ending, and the answer is it.

The loop is seeded, and requests and answers take their time, so that a cancellation arrives before, between
and after the claim, the start, the end and what is written of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from leasemq.context import Ctx
from leasemq.protocol.insight import CancelAnswer, Event, JobRecord
from leasemq.protocol.model import TERMINAL, Outcome, State
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from tests.app.unhurried import unhurried
from tests.worker.conftest import Theatre
from tests.worker.stage import QUEUE, Stage

JOBS = 1_000
WORKERS = 3
CONCURRENCY = 5
AHEAD = 12  # a cancellation comes when its job is at most so many places from being taken,
BEHIND = 40  # or was taken at most so many places ago
UNKNOWN = "nobody"


@dataclass(slots=True)
class Told:
    """What the functions and the cancellers saw, in order. Owned by the play."""

    starts: dict[str, list[int]] = field(default_factory=dict)
    answers: dict[str, tuple[CancelAnswer, int]] = field(default_factory=dict)
    moments: int = 0

    def moment(self) -> int:
        """Number what happens."""
        self.moments += 1
        return self.moments

    def answered(self, answer: CancelAnswer) -> int:
        """How many cancellations were answered so."""
        return sum(one is answer for one, _ in self.answers.values())


async def race(stage: Stage, seed: int, jobs: int) -> Told:
    """Have workers and cancellers go for the same jobs; answers what they saw once all have ended."""
    dice = random.Random(seed)
    stage.backend, _ = unhurried(stage.backend, dice)
    told = Told()

    async def work(ctx: Ctx, takes_ms: int, fails: bool) -> str:
        told.starts.setdefault(ctx.job_id, []).append(told.moment())
        await pass_time(takes_ms / 1_000)
        if fails and ctx.attempt == 1:
            raise ValueError("the first run fails")
        return ctx.job_id

    stage.task("work", work, retry=Retry(2, base=0.01, jitter="none"))
    ids: list[str] = []
    for _ in range(0, jobs, 500):
        calls = [(dice.randrange(20), dice.randrange(4) == 0) for _ in range(500)]
        ids += await stage.enqueue_many("work", calls)
    for _ in range(WORKERS):
        stage.start(concurrency=CONCURRENCY)
    lanes = [ids[number::3] for number in range(3)]
    async with asyncio.TaskGroup() as group:
        for lane in lanes:
            group.create_task(cancel_each(stage, lane, ids, told, dice))
    await stage.until_ended(patience_s=600)
    return told


async def cancel_each(stage: Stage, lane: list[str], ids: list[str], told: Told, dice: random.Random) -> None:
    """Cancel these jobs when they are about to be taken, or have just been."""
    places = {id_: place for place, id_ in enumerate(ids)}
    for id_ in lane:
        taken_then = places[id_] + dice.randrange(-AHEAD, BEHIND)
        while len(ids) - (await stage.backend.counts(QUEUE)).waiting < min(taken_then, len(ids)):
            await pass_time(0.002)
        (answer,) = await stage.backend.cancel(QUEUE, [id_])
        told.answers[id_] = (answer, told.moment())


async def events_of(stage: Stage) -> list[Event]:
    """The queue's feed from its beginning."""
    found: list[Event] = []
    cursor = ""
    while True:
        page = await stage.backend.events(QUEUE, cursor, 1_000)
        if not page.events:
            return found
        found += page.events
        cursor = page.cursor


async def check(stage: Stage, told: Told, jobs: int) -> None:
    """See that each job has one ending, which is what the canceller was told."""
    ids = sorted(told.answers)
    assert len(ids) == jobs
    endings = Counter(event.ref.id for event in await events_of(stage) if event.state in TERMINAL)
    assert endings == dict.fromkeys(ids, 1)
    records = await records_of(stage, ids)
    for id_, record in zip(ids, records, strict=True):
        _agrees(record, *told.answers[id_], told.starts.get(id_, []))
    counts = await stage.backend.counts(QUEUE)
    assert (counts.accepted, counts.completed + counts.cancelled) == (jobs, jobs)


async def records_of(stage: Stage, ids: list[str]) -> list[JobRecord]:
    """Their records, all of which are there."""
    found = await stage.backend.get(QUEUE, ids)
    return [record for record in found if record is not None]


def _agrees(record: JobRecord, answer: CancelAnswer, at: int, starts: list[int]) -> None:
    outcomes = [attempt.outcome for attempt in record.history]
    match answer:
        case CancelAnswer.CANCELLED:
            assert record.state is State.CANCELLED
            assert all(start < at for start in starts)
            assert outcomes == [Outcome.RETRIED] * len(starts), "a run that nobody retries has ended it"
        case CancelAnswer.CANCELLING:
            assert record.state is State.CANCELLED
            assert outcomes[-1] is Outcome.CANCELLED
            assert len(outcomes) - len(starts) in (0, 1), "the cancellation may come before the start"
            assert record.result is None
        case CancelAnswer.FINISHED:
            assert record.state is State.COMPLETED
            assert outcomes[-1] is Outcome.COMPLETED
            assert len(starts) == len(outcomes)
            assert record.result is not None
        case _:
            raise AssertionError(f"{record.ref.id}: {answer}")


def seen(told: Told) -> Iterator[tuple[str, int]]:
    """How often each answer was given."""
    for answer in (CancelAnswer.CANCELLED, CancelAnswer.CANCELLING, CancelAnswer.FINISHED):
        yield answer.value, told.answered(answer)


@pytest.mark.promise("P-50", "P-51", "A-21")
def test_a_thousand_cancellations_race_with_claims_and_each_job_has_one_ending(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        told = await race(stage, 1, JOBS)
        await check(stage, told, JOBS)
        assert min(number for _, number in seen(told)) >= JOBS // 20

        before = await records_of(stage, sorted(told.answers))
        again = await stage.backend.cancel(QUEUE, [*sorted(told.answers), UNKNOWN])
        assert set(again[:-1]) == {CancelAnswer.FINISHED}
        assert again[-1] is CancelAnswer.NOT_FOUND
        assert await records_of(stage, sorted(told.answers)) == before
        assert list(await stage.backend.get(QUEUE, [UNKNOWN])) == [None]
        unknown = await stage.enqueue_many("work", [(0, False)], id=UNKNOWN)
        await stage.until_ended(*unknown)
        assert (await stage.job(UNKNOWN)).state is State.COMPLETED

    theatre(play, seed=1)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-50", "P-51", "A-21")
@pytest.mark.parametrize("seed", range(10, 20))
def test_ten_thousand_cancellations_race_with_claims(theatre: Theatre, backend_name: str, seed: int) -> None:
    async def play(stage: Stage) -> None:
        told = await race(stage, seed, JOBS)
        await check(stage, told, JOBS)
        answers = dict(seen(told))
        print(f"cancellations: {JOBS:,} on {backend_name} in virtual time, seed {seed}: {answers}")

    theatre(play, seed=seed)
