"""The worker list: each life with what it is and holds, and gone soon after its end."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from tests.worker.conftest import Theatre
from tests.worker.stage import QUEUE, Stage

LIST_S = 30.0


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.promise("P-84", "A-33")
def test_a_worker_shows_what_it_is_and_soon_which_jobs_it_holds(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        worker = stage.start(name="w", concurrency=3)
        await stage.pass_time(0.1)
        (idle,) = await stage.backend.workers()
        jobs = [await stage.enqueue("sleep", 20) for _ in range(2)]
        await stage.pass_time(5.5)
        (busy,) = await stage.backend.workers()
        await stage.until_ended(*jobs)
        await stage.pass_time(5.5)
        (again,) = await stage.backend.workers()

        assert (idle.worker, idle.host, idle.pid) == ("w", socket.gethostname(), os.getpid())
        assert (idle.queues, idle.slots, idle.version) == ((QUEUE,), 3, "0.1.0")
        assert [(one.running, [ref.id for ref in one.jobs]) for one in (idle, busy, again)] == [
            (0, []),
            (2, jobs),
            (0, []),
        ]
        assert {busy.incarnation, again.incarnation} == {idle.incarnation}
        await worker.stop()
        assert list(await stage.backend.workers()) == []

    theatre(play)


@pytest.mark.promise("P-84", "A-33")
def test_two_lives_under_one_name_are_told_apart_and_the_killed_one_is_gone_in_time(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        killed = stage.start(name="w")
        await stage.pass_time(1)
        await killed.die()
        stage.start(name="w")
        await stage.pass_time(1)
        both = await stage.backend.workers()
        await stage.pass_time(LIST_S - 1)
        left = await stage.backend.workers()

        assert [one.worker for one in both] == ["w", "w"]
        assert len({one.incarnation for one in both}) == 2
        assert [one.worker for one in left] == ["w"]

    theatre(play)


@pytest.mark.promise("P-83", "P-84")
def test_short_jobs_cost_no_announcement_each(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        announced: list[int] = []
        announce = stage.backend.announce

        async def counted(worker: object, ttl_ms: int) -> None:
            announced.append(ttl_ms)
            await announce(worker, ttl_ms)  # type: ignore[arg-type]  # what it is given, it hands on

        stage.backend.announce = counted  # type: ignore[method-assign]  # counts, and changes nothing
        stage.start(concurrency=5)
        for _ in range(200):
            await stage.enqueue("sleep", 0.35)
            await stage.pass_time(0.1)

        assert len(announced) <= 1 + 20 / 4

    theatre(play)
