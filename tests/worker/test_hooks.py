"""What an app has done before the first claim, and after the last settlement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from leasemq.errors import HookFailed
from leasemq.events import WorkerStarted
from leasemq.protocol.model import State
from leasemq.worker.hooks import Hook, Hooks
from leasemq.worker.loop import HURRIED, STOPPED
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage

pytestmark = pytest.mark.promise("A-42")


def hook(call: Callable[[], Any], name: str = "a_hook") -> Hook:
    return Hook(name=name, call=call)


def notes(into: list[str], *names: str) -> tuple[Hook, ...]:
    return tuple(hook(lambda name=name: into.append(name), name) for name in names)  # type: ignore[misc]  # a default binds it


async def done(stage: Stage, process: Process) -> int:
    process.task = stage.spawn(process.worker.run())
    await stage.until_ended()
    return await process.stop()


def test_start_hooks_run_before_the_first_claim_and_stop_hooks_after_the_last_settlement(
    theatre: Theatre,
) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        async def job() -> None:
            told.append("job")

        async def connect() -> None:
            await stage.pass_time(5)
            told.append("connect")

        async def look() -> None:
            told.append((await stage.job(id_)).state)

        stage.task("t", job)
        id_ = await stage.enqueue("t")
        start = (*notes(told, "first"), hook(connect))
        stop = (*notes(told, "last", "second"), hook(look))
        process = stage.process(hooks=Hooks(start=start, stop=stop))
        assert await done(stage, process) == STOPPED

    theatre(play)
    assert told == ["first", "connect", "job", State.COMPLETED, "second", "last"]


def test_a_start_hook_that_raises_ends_the_worker_before_any_claim_and_is_named(theatre: Theatre) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        async def connect() -> None:
            raise OSError("no route")

        stage.task("t", lambda: told.append("job"))
        id_ = await stage.enqueue("t")
        start = (hook(connect, "shop.connect"), *notes(told, "never"))
        process = stage.process(hooks=Hooks(start=start, stop=notes(told, "stop")))
        with pytest.raises(HookFailed, match=r"start hook shop\.connect raised OSError: no route"):
            await process.worker.run()
        assert process.events(WorkerStarted) == []
        assert (await stage.job(id_)).attempts == 0

    theatre(play)
    assert told == ["stop"]


def test_a_start_hook_that_ends_the_program_ends_the_worker_only(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        def leave() -> None:
            raise SystemExit(3)

        with pytest.raises(HookFailed, match="SystemExit"):
            await stage.process(hooks=Hooks(start=(hook(leave),))).worker.run()

    theatre(play)


ODD = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), asyncio.CancelledError()]
"""What code of the user's may raise, and what means something else to a loop, a generator or a task."""


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_whatever_a_start_hook_raises_nothing_is_claimed(theatre: Theatre, odd: BaseException) -> None:
    async def play(stage: Stage) -> None:
        async def fail() -> None:
            raise odd

        told: list[str] = []
        start = (hook(fail, "shop.open"), *notes(told, "later"))
        id_ = await stage.enqueue("t")
        with pytest.raises(HookFailed, match=r"shop\.open"):
            await stage.process(hooks=Hooks(start=start)).worker.run()
        assert told == []
        assert (await stage.job(id_)).state is State.WAITING

    theatre(play)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_whatever_a_stop_hook_raises_the_others_run(theatre: Theatre, odd: BaseException) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        async def fail() -> None:
            raise odd

        stop = (*notes(told, "last"), hook(fail), *notes(told, "first"))
        assert await done(stage, stage.process(hooks=Hooks(stop=stop))) == HURRIED

    theatre(play)
    assert told == ["first", "last"]


def test_a_stop_hook_that_raises_is_logged_and_makes_the_exit_code_non_zero(
    theatre: Theatre, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        def fail() -> None:
            raise ValueError("the end")

        stop = (*notes(told, "last"), hook(fail, "shop.close"), *notes(told, "first"))
        assert await done(stage, stage.process(hooks=Hooks(stop=stop))) == HURRIED

    with caplog.at_level(logging.ERROR):
        theatre(play)
    assert told == ["first", "last"]
    assert "stop hook shop.close failed" in caplog.text


def test_a_stop_hook_that_does_not_end_is_bounded_and_the_others_run(
    theatre: Theatre, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        async def hang() -> None:
            await asyncio.Event().wait()

        stop = (*notes(told, "last"), hook(hang, "shop.hang"))
        process = stage.process(hooks=Hooks(stop=stop))
        began_ms = stage.clock()
        assert await done(stage, process) == HURRIED
        assert stage.clock() - began_ms < 10_000

    with caplog.at_level(logging.ERROR):
        theatre(play)
    assert told == ["last"]
    assert "stop hook shop.hang failed" in caplog.text


def test_a_hurried_worker_does_not_wait_for_its_stop_hooks(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def hang() -> None:
            is_stopping.set()
            await asyncio.Event().wait()

        is_stopping = asyncio.Event()
        process = stage.process(hooks=Hooks(stop=(hook(hang),)))
        process.task = stage.spawn(process.worker.run())
        process.worker.stop()
        await is_stopping.wait()
        began_ms = stage.clock()
        assert await process.stop() != 0
        assert stage.clock() - began_ms < 1_000

    theatre(play)


def test_a_hook_that_refuses_its_cancellation_is_left_behind(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def refuse() -> None:
            while not is_over.is_set():
                try:
                    await is_over.wait()
                except asyncio.CancelledError:
                    continue

        is_over = asyncio.Event()
        process = stage.process(hooks=Hooks(stop=(hook(refuse),)))
        assert await done(stage, process) == HURRIED
        is_over.set()

    theatre(play)


def test_a_stop_during_the_start_hooks_is_heard(theatre: Theatre) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        async def hang() -> None:
            is_starting.set()
            await asyncio.Event().wait()

        is_starting = asyncio.Event()
        stage.task("t", lambda: told.append("job"))
        await stage.enqueue("t")
        process = stage.process(hooks=Hooks(start=(hook(hang),), stop=notes(told, "stop")))
        process.task = stage.spawn(process.worker.run())
        await is_starting.wait()
        assert await process.stop() == STOPPED

    theatre(play)
    assert told == ["stop"]
