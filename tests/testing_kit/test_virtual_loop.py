"""The virtual loop: time without waiting, one seed for one interleaving, and a clear end when stuck."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from leasemq.clock import boot_ms
from leasemq.errors import InvalidSetting, Unsupported, VirtualTimeStuck
from leasemq.testing.virtual_loop import EPOCH_MS, VirtualClock, VirtualLoop, pass_time, run_virtual

HOUR_S = 3600.0

CANCELLED_GROUP = """
import asyncio
from leasemq.testing.virtual_loop import pass_time, run_virtual

async def main():
    seen = []
    ballast = [object() for _ in range({ballast})]

    async def child(name):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(name)

    try:
        async with asyncio.TaskGroup() as group:
            for name in range(30):
                group.create_task(child(name))
            await pass_time(1)
            raise ValueError
    except* ValueError:
        pass
    return seen

print(run_virtual(main(), seed={seed}))
"""


async def race(count: int = 8, turns: int = 3) -> list[str]:
    """What several tasks did, in the order in which they did it."""
    trace: list[str] = []

    async def runner(name: str) -> None:
        for turn in range(turns):
            trace.append(f"{name}{turn}")
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(runner(chr(ord("a") + number)))
    return trace


def test_a_virtual_hour_takes_no_real_time() -> None:
    async def main() -> float:
        await pass_time(HOUR_S)
        return asyncio.get_running_loop().time()

    started_ms = boot_ms()
    assert run_virtual(main()) == HOUR_S
    assert boot_ms() - started_ms < 5_000


def test_the_same_seed_gives_the_same_trace() -> None:
    assert run_virtual(race(), seed=7) == run_virtual(race(), seed=7)


def test_different_seeds_give_different_traces() -> None:
    assert len({tuple(run_virtual(race(), seed=seed)) for seed in range(20)}) > 15


def test_without_a_seed_callbacks_keep_their_order() -> None:
    assert run_virtual(race(count=3, turns=2)) == ["a0", "b0", "c0", "a1", "b1", "c1"]


def test_every_interleaving_of_three_tasks_is_reached_by_some_seed() -> None:
    assert len({tuple(run_virtual(race(count=3, turns=1), seed=seed)) for seed in range(60)}) == 6


def test_another_process_with_other_addresses_and_hashes_gives_the_same_trace() -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-c", CANCELLED_GROUP.format(seed=3, ballast=ballast)],
            env={"PYTHONHASHSEED": str(ballast), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for ballast in (1, 20_000, 50_000)
    }
    assert len(traces) == 1
    assert sorted(map(int, traces.pop().strip("[]\n").split(", "))) == list(range(30))


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def main() -> list[float]:
        fired: list[float] = []

        async def wait(seconds: float) -> None:
            await pass_time(seconds)
            fired.append(seconds)

        async with asyncio.TaskGroup() as group:
            for seconds in (30.0, 0.001, HOUR_S, 10.0):
                group.create_task(wait(seconds))
        return fired

    assert run_virtual(main(), seed=1) == [0.001, 10.0, 30.0, HOUR_S]


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_asyncio_timeout_ends_a_wait_at_its_time(seed: int | None) -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(12.5):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main(), seed=seed) == 12.5


def test_a_failing_child_cancels_its_siblings() -> None:
    async def main() -> list[str]:
        ended: list[str] = []

        async def sibling() -> None:
            try:
                await pass_time(HOUR_S)
            finally:
                ended.append("sibling")

        async def failing() -> None:
            await pass_time(1)
            raise ValueError("on purpose")

        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(sibling())
                group.create_task(failing())
        return [*ended, str(asyncio.get_running_loop().time())]

    assert run_virtual(main()) == ["sibling", "1.0"]


def test_waiting_for_what_cannot_come_says_who_waits_and_where() -> None:
    async def main() -> None:
        asyncio.current_task().set_name("the-main-one")  # type: ignore[union-attr]  # a coroutine runs in a task
        await asyncio.Event().wait()

    with pytest.raises(
        VirtualTimeStuck, match=r"no timer is left.*\n  the-main-one waits at .*test_virtual_loop"
    ):
        run_virtual(main())


def test_a_program_that_never_ends_is_stopped_by_the_step_limit() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - waits for nothing, on purpose
            await asyncio.sleep(0)

    with pytest.raises(VirtualTimeStuck, match="1,000 steps"):
        run_virtual(main(), max_steps=1_000)


def test_a_program_that_ignores_its_cancellation_is_stopped_all_the_same() -> None:
    async def main() -> None:
        while True:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue

    with pytest.raises(VirtualTimeStuck):
        run_virtual(main(), max_steps=1_000)


def test_a_program_that_only_waits_is_stopped_by_the_time_limit() -> None:
    async def main() -> None:
        while True:
            await pass_time(60)

    with pytest.raises(VirtualTimeStuck, match="would pass 600 s"):
        run_virtual(main(), max_virtual_s=600)


def test_the_error_of_the_main_coroutine_is_raised() -> None:
    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(main())


def test_the_clock_moves_with_the_loop() -> None:
    async def main() -> tuple[int, int]:
        clock = VirtualClock.of_running_loop()
        before = clock.now_ms()
        for _ in range(1000):
            await pass_time(0.1)
        return before, clock.now_ms()

    assert run_virtual(main()) == (EPOCH_MS, EPOCH_MS + 100_000)


def test_a_step_moves_the_clock_and_not_the_loop() -> None:
    async def main() -> tuple[int, int, float]:
        clock = VirtualClock.of_running_loop()
        clock.step(-3_600_000)
        return clock.now_ms(), clock.boot_ms(), asyncio.get_running_loop().time()

    assert run_virtual(main()) == (EPOCH_MS - 3_600_000, 0, 0.0)


def test_an_advance_passes_with_nothing_running() -> None:
    async def main() -> tuple[bool, int, int]:
        clock = VirtualClock.of_running_loop()
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(5, fired.set)
        clock.advance(20_000)
        was_fired_meanwhile = fired.is_set()
        await fired.wait()
        return was_fired_meanwhile, clock.now_ms() - EPOCH_MS, clock.boot_ms()

    assert run_virtual(main()) == (False, 20_000, 20_000)


def test_time_does_not_go_back() -> None:
    loop = VirtualLoop()
    try:
        with pytest.raises(InvalidSetting, match="-1"):
            loop.jump(-1)
    finally:
        loop.close()


def test_threads_are_refused_with_the_reason() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(Unsupported, match="runs no thread"):
        run_virtual(main())


async def test_passing_time_on_a_real_loop_is_refused() -> None:
    with pytest.raises(Unsupported, match="run_virtual"):
        await pass_time(1)
