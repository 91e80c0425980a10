"""A process that dies at each point of a run: what the next one finds, and how often the function ran."""

from __future__ import annotations

import pytest

from leasemq.context import Ctx
from leasemq.protocol.model import State
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage

LEASE_MS = 2_000
EXPECTED = {  # runs, stalls, failures
    "after the claim, before the start": (1, 1, 0),
    "in the function": (2, 1, 0),
    "after the return, before it is written": (2, 1, 0),
    "after it is written, before that is known": (1, 0, 0),
    "after the raise, before it is written": (2, 1, 0),
    "after the failure is written": (2, 0, 1),
}


@pytest.mark.promise("P-01", "P-02", "P-03", "P-14", "P-23", "B04")
@pytest.mark.parametrize("point", EXPECTED)
def test_a_process_may_die_at_any_point_of_a_run(theatre: Theatre, point: str) -> None:
    async def play(stage: Stage) -> None:
        keys: list[str] = []
        deaths: list[Process] = []

        async def work(ctx: Ctx) -> int:
            keys.append(ctx.idempotency_key("insert"))
            if len(keys) > 1 or not deaths:
                return 1
            match point:
                case "after the claim, before the start":
                    pass
                case "in the function":
                    deaths[0].wire.is_down = True
                    await pass_time(3_600)
                case "after the return, before it is written":
                    deaths[0].wire.is_down = True
                case "after it is written, before that is known":
                    deaths[0].wire.hang("settle")
                case "after the raise, before it is written":
                    deaths[0].wire.is_down = True
                    raise ValueError("unwritten")
                case _:
                    deaths[0].wire.hang("settle")
                    raise ValueError("written")
            return 1

        stage.task("work", work, retry=Retry(2, base=0.1, jitter="none"))
        dying = stage.process(lease_ms=LEASE_MS)
        deaths.append(dying)
        if point.startswith("after the claim"):
            dying.wire.hang("claim")
        job = await stage.enqueue("work")
        dying.task = stage.spawn(dying.worker.run())
        await stage.pass_time(0.05)
        died_ms = stage.clock()
        await dying.die()
        stage.start(lease_ms=LEASE_MS)
        await stage.until_ended(job)
        record = await stage.job(job)
        assert record.state is State.COMPLETED
        assert (len(keys), record.stalls, record.failures) == EXPECTED[point]
        assert len(set(keys)) == 1
        assert stage.clock() - died_ms <= LEASE_MS + 1_000
        counts = await stage.backend.counts("q")
        assert (counts.completed, counts.failed, counts.active) == (1, 0, 0)

    theatre(play)
