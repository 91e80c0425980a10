"""What a worker costs its backend while there is nothing to do, and what it finds all the same."""

from __future__ import annotations

import pytest

from leasemq.context import Ctx
from leasemq.maintenance import follow_up
from leasemq.protocol.model import Parent, State
from leasemq.testing.faults import WAIT
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

LEASE_MS = 30_000
WATCHED_S = 1_200
HEARTBEATS_PER_S = 0.04  # of the process
PER_QUEUE_PER_S = 0.09  # a claim each 15 s, and now and then a look for what is rare


async def _noop() -> None:
    pass


@pytest.mark.promise("P-83")
@pytest.mark.parametrize("queues", [1, 3, 10])
def test_an_idle_worker_sends_few_commands(theatre: Theatre, queues: int) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        names = tuple(f"q{number}" for number in range(queues))
        for name in names:
            await stage.enqueue("noop", queue=name)
        process = stage.start(queues=names, lease_ms=LEASE_MS)
        await stage.pass_time(60)
        before = process.wire.calls.copy()
        await stage.pass_time(WATCHED_S)
        sent = process.wire.calls - before
        del sent[WAIT]  # waits for pushes, and sends nothing
        assert sum(sent.values()) / WATCHED_S <= HEARTBEATS_PER_S + queues * PER_QUEUE_PER_S
        assert HEARTBEATS_PER_S + PER_QUEUE_PER_S <= 0.2

    theatre(play)


@pytest.mark.promise("P-110", "P-02")
@pytest.mark.parametrize("is_new", [True, False])
def test_what_a_dead_worker_left_in_the_outbox_is_found_soon(theatre: Theatre, *, is_new: bool) -> None:
    """By a process that starts, within its first sweep; by the others, when they recover its leases."""

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx, seconds: float) -> None:
            if ctx.attempt == 1:
                await pass_time(seconds)

        stage.task("noop", _noop)
        stage.task("work", work)
        parent = await stage.enqueue("work", 20)
        child = await stage.enqueue("noop", parents=(Parent(queue="q", id=parent),))
        await follow_up(stage.backend, "q", 100)
        if not is_new:
            await stage.enqueue("work", 3_600, max_stalls=0)
        dying = stage.process(lease_ms=LEASE_MS)
        dying.wire.lose_request("outbox", times=1_000)
        dying.task = stage.spawn(dying.worker.run())
        await stage.pass_time(1)
        if not is_new:
            stage.start(lease_ms=LEASE_MS)
        await stage.until_ended(parent)
        await dying.die()
        assert (await stage.job(child)).state is State.BLOCKED
        if is_new:
            stage.start(lease_ms=LEASE_MS)
        await stage.until_ended(child, patience_s=LEASE_MS / 1_000 + 2)

    theatre(play)
