"""Claim, run, settle: without faults."""

from __future__ import annotations

import pytest

from leasemq.events import JobEnded, WorkerStopped
from leasemq.protocol.model import State
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage


@pytest.mark.promise("P-01", "A-1")
def test_a_job_runs_and_its_result_is_kept(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def add(a: int, b: int) -> int:
            return a + b

        routine = stage.task("add", add)
        job = await stage.enqueue("add", 2, 3)
        process = stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert record.state is State.COMPLETED
        assert record.result is not None
        assert routine.signature.decode_result(record.result) == 5
        assert (record.attempts, record.failures, record.stalls, record.refused_count) == (1, 0, 0, 0)
        assert await process.stop() == 0
        assert [event.outcome for event in process.events(JobEnded)] == ["completed"]
        assert process.events(WorkerStopped)[0].unsettled == 0

    theatre(play)
