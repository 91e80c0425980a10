"""Jobs that one process cancels while two others take them: each has one ending, and the answer is it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from leasemq.protocol.insight import CancelAnswer, JobRecord
from leasemq.protocol.model import Outcome, State
from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import QUEUE, Place

pytestmark = pytest.mark.by_url

JOBS = 1_000


def records(place: Place, ids: list[str]) -> list[JobRecord]:
    """The records of all these jobs, read in the test's own process."""

    async def read() -> list[JobRecord]:
        backend = (await place.app._connections.here()).backend
        return [record for record in await backend.get(QUEUE, ids) if record is not None]

    return place.app.call_sync(read)


@pytest.mark.slow
@pytest.mark.promise("P-50", "P-51", "A-21")
def test_a_thousand_jobs_that_one_process_cancels_and_two_take_have_one_ending_each(place: Place) -> None:
    place.hurry()
    dice = random.Random(1)
    calls = [(dice.random() * 0.1,) for _ in range(JOBS)]
    ids = [job.id for job in task_of(place.app, "brief").enqueue_many_sync(calls)]
    canceller = place.program("cancelling", *ids)
    place.ledger.wait("ready")
    for name in ("A", "B"):
        place.worker(name, concurrency=10, lease_s=30)

    place.wait_for(
        lambda: place.counts().completed + place.counts().cancelled == JOBS, "all have ended", within_s=100
    )
    assert canceller.exit_code() == 0
    runs = place.ledger.runs()
    answers = {line.job: line.values["answer"] for line in place.ledger.lines("cancelled")}
    assert sorted(answers) == sorted(ids)
    for record in records(place, ids):
        ran = runs.get(record.ref.id, 0)
        match CancelAnswer(answers[record.ref.id]):
            case CancelAnswer.CANCELLED:
                assert (record.state, record.attempts, ran) == (State.CANCELLED, 0, 0)
            case CancelAnswer.CANCELLING:
                assert record.state is State.CANCELLED
                assert [attempt.outcome for attempt in record.history] == [Outcome.CANCELLED]
                assert ran <= 1
            case CancelAnswer.FINISHED:
                assert (record.state, record.attempts, ran) == (State.COMPLETED, 1, 1)
                assert record.result is not None
            case _:
                raise AssertionError(answers[record.ref.id])
    found = Counter(answers.values())
    print(
        f"cancellations: {JOBS:,} on {place.backend_name}, by one process against two workers: {dict(found)}"
    )
    assert len(found) == 3
    counts = place.counts()
    assert (counts.accepted, counts.completed, counts.cancelled) == (
        JOBS,
        found["finished"],
        found["cancelled"] + found["cancelling"],
    )
