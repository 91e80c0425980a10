"""What follows from an end: dependants run at once, and a worker without dependants pays next to nothing."""

from __future__ import annotations

import pytest

from leasemq.maintenance import follow_up
from leasemq.protocol.model import Parent, State
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage


async def _noop() -> None:
    pass


@pytest.mark.promise("P-110", "A-24")
def test_a_diamond_of_jobs_runs_in_order_without_waiting_for_a_sweep(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        order: list[str] = []

        async def work(name: str) -> None:
            order.append(name)

        stage.task("work", work)
        stage.start(sweep=False)
        await stage.pass_time(2)
        top = await stage.enqueue("work", "top", delay_ms=1_000)
        sides = [
            await stage.enqueue("work", name, parents=(Parent(queue="q", id=top),))
            for name in ("left", "right")
        ]
        both = tuple(Parent(queue="q", id=side) for side in sides)
        bottom = await stage.enqueue("work", "bottom", parents=both)
        await follow_up(stage.backend, "q", 100)
        await stage.until_ended(bottom, patience_s=1 + 3)
        assert order in (["top", "left", "right", "bottom"], ["top", "right", "left", "bottom"])

    theatre(play)


@pytest.mark.promise("P-110")
def test_a_dependant_whose_release_was_cut_off_is_released_by_a_sweep(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        parent = await stage.enqueue("noop")
        child = await stage.enqueue("noop", parents=(Parent(queue="q", id=parent),))
        await follow_up(stage.backend, "q", 100)
        first = stage.process(lease_ms=2_000)
        first.wire.lose_request("outbox", times=1_000)
        first.task = stage.spawn(first.worker.run())
        await stage.until_ended(parent)
        await first.die()
        assert (await stage.job(child)).state is State.BLOCKED
        stage.start(lease_ms=2_000)
        await stage.until_ended(child)

    theatre(play)


@pytest.mark.promise("P-110", "P-83")
def test_a_busy_worker_without_dependants_looks_for_follow_ups_once_a_second(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start()
        for _ in range(200):
            await stage.enqueue("noop")
            await stage.pass_time(0.05)
        assert process.wire.calls["settle"] >= 150
        assert process.wire.calls["outbox"] <= 14

    theatre(play)
