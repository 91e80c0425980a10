"""A thousand functions that fail in every way leave a worker as it was: every slot can be used."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from leasemq.protocol.model import State
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage, real_stage
from tests.worker.test_outcomes import RAISED

FAILURES = 1_000
SLOTS = 10


@pytest.mark.promise("P-25", "P-80", "B38", "B39")
def test_after_a_thousand_failures_as_many_async_functions_run_at_once_as_before(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        raised = itertools.cycle(RAISED.values())
        all_in = asyncio.Barrier(SLOTS)

        async def bad() -> None:
            raise next(raised)()

        async def good() -> None:
            await all_in.wait()  # ends only if all the slots are used at once

        stage.task("bad", bad)
        stage.task("good", good)
        failing = await stage.enqueue_many("bad", [()] * FAILURES)
        process = stage.start(concurrency=SLOTS)
        await stage.until_ended()
        counts = await stage.backend.counts("q")
        assert counts.failed == len(failing)
        good_ones = await stage.enqueue_many("good", [()] * SLOTS)
        await stage.until_ended(*good_ones)
        assert {(await stage.job(one)).state for one in good_ones} == {State.COMPLETED}
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-25", "P-80", "B38", "B39")
async def test_after_a_thousand_failures_as_many_threads_run_at_once_as_before() -> None:
    raised = itertools.cycle(RAISED.values())
    guard = threading.Lock()
    all_in = threading.Barrier(SLOTS)

    def bad() -> None:
        with guard:
            make = next(raised)
        raise make()

    def good() -> None:
        all_in.wait(20)

    async with real_stage() as stage:
        stage.task("bad", bad)
        stage.task("good", good)
        await stage.enqueue_many("bad", [()] * FAILURES)
        process = stage.start(concurrency=SLOTS)
        await stage.until_ended()
        assert (await stage.backend.counts("q")).failed == FAILURES
        good_ones = await stage.enqueue_many("good", [()] * SLOTS)
        await stage.until_ended(*good_ones)
        assert {(await stage.job(one)).state for one in good_ones} == {State.COMPLETED}
        assert await process.stop() == 0
