"""A function that keeps the loop, or every thread, from running is told with its line. Real time."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
import pytest_asyncio

from leasemq.context import Ctx
from leasemq.errors import InvalidSetting
from leasemq.events import LoopStalled, LoopTurned
from leasemq.logs import level_of, log_event
from leasemq.protocol.model import State
from leasemq.worker import WorkerSettings
from tests.worker.stage import Process, Stage, real_stage

STALL_MS = 100
HELD_US = 600_000
LIBC = ctypes.PyDLL(None)  # its functions run with the GIL held


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """A stage in real time."""
    async with real_stage() as one:
        yield one


def _wait_until(is_so: Callable[[], object]) -> None:
    """Block this thread."""
    pause = threading.Event()
    for _ in range(4_000):
        if is_so():
            return
        pause.wait(0.005)
    raise AssertionError("it did not come within 20 s")


async def _told(stage: Stage, process: Process, kind: type[LoopStalled | LoopTurned]) -> None:
    async def is_told() -> bool:
        return bool(process.events(kind))

    await stage.until(is_told)


@pytest.mark.promise("P-15", "B09", "A-15")
async def test_a_block_is_told_while_it_lasts_with_the_job_and_the_line(stage: Stage) -> None:
    seen: list[int] = []

    async def blocking(ctx: Ctx) -> None:
        _wait_until(lambda: process.events(LoopStalled))
        seen.append(len(process.events(LoopTurned)))
        pause = threading.Event()
        for _ in range(40):  # four more times as long as it takes to tell
            pause.wait(STALL_MS / 10_000)

    async def quiet() -> None:
        await asyncio.Event().wait()

    stage.task("blocking", blocking)
    stage.task("quiet", quiet)
    await stage.enqueue_many("quiet", [()] * 3)
    process = stage.start(stall_after_ms=STALL_MS)
    job = await stage.enqueue("blocking")
    await stage.until_ended(job)
    await _told(stage, process, LoopTurned)
    record = await stage.job(job)
    stalled, turned = process.events(LoopStalled), process.events(LoopTurned)
    assert [(one.ref.id, one.task, one.attempt, one.holds_gil) for one in stalled] == [
        (job, "blocking", 1, False)
    ]
    assert stalled[0].fence == record.fence
    assert stalled[0].blocked_ms >= STALL_MS
    assert __file__ in (stalled[0].where or "")
    assert "_wait_until" in (stalled[0].where or "")
    assert seen == [0]
    assert [one.ref.id for one in turned] == [job]
    assert turned[0].blocked_ms > stalled[0].blocked_ms
    assert (level_of(stalled[0]), level_of(turned[0])) == (logging.WARNING, logging.INFO)


@pytest.mark.promise("P-15")
async def test_the_line_is_the_functions_own_and_not_one_of_a_library(stage: Stage) -> None:
    from asyncio import events as library

    async def blocking() -> None:
        assert library.__name__ == "asyncio.events"
        gate.wait(20)  # the thread is in threading.py

    gate = threading.Event()
    stage.task("blocking", blocking)
    process = stage.process(stall_after_ms=STALL_MS)
    hear = process.told.append

    def let_go(event: object) -> None:
        hear(event)  # type: ignore[arg-type]  # an event, as it came
        if isinstance(event, LoopStalled):
            gate.set()

    process.worker._observer = let_go
    process.task = stage.spawn(process.worker.run())
    job = await stage.enqueue("blocking")
    await stage.until_ended(job)
    assert (process.events(LoopStalled)[0].where or "").endswith("blocking")


@pytest.mark.promise("P-15", "B09")
@pytest.mark.alone
@pytest.mark.parametrize("place", ["a thread", "the loop"])
async def test_whoever_held_the_gil_is_told_when_it_is_free_again(stage: Stage, place: str) -> None:
    def hold() -> None:
        LIBC.usleep(HELD_US)

    async def hold_in_loop() -> None:
        hold()

    async def is_told() -> bool:
        return bool(process.events(LoopStalled))

    stage.task("hold", hold if place == "a thread" else hold_in_loop)
    process = stage.start(stall_after_ms=STALL_MS)
    jobs: list[str] = []
    while not process.events(LoopStalled) and len(jobs) < 20:  # a thread that gets no CPU cannot see it
        jobs.append(await stage.enqueue("hold"))
        await stage.until_ended(jobs[-1])
        with suppress(TimeoutError):
            await stage.until(is_told, patience_s=1)
    told = process.events(LoopStalled)
    assert [(one.ref.id, one.holds_gil) for one in told] == [(jobs[-1], True)]
    assert told[0].blocked_ms >= HELD_US // 2_000


@pytest.mark.promise("P-15")
async def test_functions_that_let_the_loop_turn_are_told_of_nowhere(stage: Stage) -> None:
    turns = 0

    async def busy() -> None:
        nonlocal turns
        began_ms = stage.clock()
        while stage.clock() - began_ms < 4 * STALL_MS:
            turns += 1
            await asyncio.sleep(0)

    def in_a_thread() -> None:
        began_ms = stage.clock()
        while stage.clock() - began_ms < 4 * STALL_MS:
            sum(range(100))

    stage.task("busy", busy)
    stage.task("in_a_thread", in_a_thread)
    jobs = [await stage.enqueue("busy"), await stage.enqueue("in_a_thread")]
    process = stage.start(stall_after_ms=10 * STALL_MS)
    await stage.until_ended(*jobs)
    assert turns > 1
    assert {(await stage.job(one)).state for one in jobs} == {State.COMPLETED}
    assert not process.events(LoopStalled)


@pytest.mark.promise("P-15", "B09")
def test_a_block_is_one_warning_that_names_the_job_and_the_time(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> str:
        async with real_stage() as stage:

            async def blocking() -> None:
                _wait_until(lambda: "LoopStalled" in caplog.text)

            stage.task("blocking", blocking)
            process = stage.process(stall_after_ms=STALL_MS)
            process.worker._observer = log_event
            process.task = stage.spawn(process.worker.run())
            job = await stage.enqueue("blocking")
            await stage.until_ended(job)
            assert await process.stop() == 0
            return job

    with caplog.at_level(logging.DEBUG, "leasemq"):
        job = asyncio.run(main())
    warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert job in warnings[0]
    assert "blocked_ms=" in warnings[0]


@pytest.mark.promise("P-15")
@pytest.mark.parametrize(
    ("lease_ms", "given_ms", "stall_ms"),
    [(30_000, None, 1_000), (3_000, None, 800), (100, None, 100), (30_000, 50, 50)],
)
def test_a_block_is_told_after_a_second_and_within_a_heartbeat(
    lease_ms: int, given_ms: int | None, stall_ms: int
) -> None:
    assert WorkerSettings(lease_ms=lease_ms, stall_after_ms=given_ms).longest_stall_ms == stall_ms


@pytest.mark.promise("P-18")
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_bad_time_for_a_block_is_refused_with_its_name_and_value(value: object) -> None:
    with pytest.raises(InvalidSetting, match=f"stall_after_ms={value!r}"):
        WorkerSettings(stall_after_ms=value)  # type: ignore[arg-type]  # what the test is about
