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
PINGS_PER_S = 0.034  # of the listener, on a server
IDLE_COMMANDS_PER_S = 0.2


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
        assert sum(sent.values()) / WATCHED_S <= IDLE_COMMANDS_PER_S - PINGS_PER_S
        assert sent["claim"] / WATCHED_S >= 1 / 15  # it sleeps no longer

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


@pytest.mark.promise("P-02", "P-83")
@pytest.mark.parametrize("held_s", [1, 100, 1_000])
def test_an_idle_worker_with_many_queues_recovers_a_dead_ones_job_when_its_lease_ends(
    theatre: Theatre, held_s: int
) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            if ctx.attempt == 1:
                await pass_time(3_600)

        stage.task("work", work)
        names = tuple(f"q{number}" for number in range(10))
        dying = stage.start(queues=("q7",), lease_ms=LEASE_MS)
        idle = stage.process(queues=names, lease_ms=LEASE_MS)
        idle.task = stage.spawn(idle.worker.run())
        await stage.pass_time(30)
        idle.wire.queues_down.add("q7")
        job = await stage.enqueue("work", queue="q7")
        await stage.pass_time(1)  # the other one has it
        idle.wire.queues_down.clear()
        await stage.pass_time(held_s)
        await dying.die()
        await stage.until_ended(job, queue="q7", patience_s=LEASE_MS / 1_000 + 3)

    theatre(play)


@pytest.mark.promise("P-02", "P-83")
def test_a_full_worker_with_many_queues_recovers_a_dead_ones_job_soon_after_its_lease_ends(
    theatre: Theatre,
) -> None:
    """It hears that there are jobs and has no room to claim, so no claim tells it of the leases there."""

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            await pass_time(3_600)

        stage.task("work", work)
        names = tuple(f"q{number}" for number in range(10))
        stage.start(queues=names, lease_ms=LEASE_MS, concurrency=1)
        await stage.pass_time(5)
        await stage.enqueue("work", queue="q0")
        await stage.pass_time(1)
        dying = stage.start(queues=("q7",), lease_ms=LEASE_MS)
        await stage.pass_time(5)
        job = await stage.enqueue("work", queue="q7")
        await stage.pass_time(1)
        await dying.die()

        async def is_recovered() -> bool:
            return (await stage.job(job, "q7")).stalls == 1

        await stage.until(is_recovered, patience_s=LEASE_MS / 1_000 + 17)

    theatre(play)
