"""The tasks of the tests. Every run writes a line when it starts and, if it takes long, one when it ends.

They are registered on an app of the test's own file: by the workers in `serving.py`, by the tests in
`place.py`.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import fcntl
import functools
import gc
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, Unpack

from leasemq import App, Ctx, Retry, Task
from leasemq.backend import Backend
from leasemq.policy import TaskOptions
from tests.end_to_end.ledger import Scribe

LOOK_EVERY_S = 0.01
FOR_EVER_S = 600.0

F = TypeVar("F", bound=Callable[..., Any])
_tasks: list[tuple[Callable[..., Any], TaskOptions]] = []


def task(**options: Unpack[TaskOptions]) -> Callable[[F], F]:
    """Remember a function, to be registered on each app."""

    def remember(function: F) -> F:
        _tasks.append((function, options))
        return function

    return remember


def app_on(place: str | Backend) -> App:
    """An app with every task registered."""
    app = App(place)
    for function, options in _tasks:
        app.task(**options)(function)
    return app


def task_of(app: App, name: str) -> Task[Any, Any]:
    """One of its tasks."""
    return app.tasks[name]


@functools.cache
def scribe() -> Scribe:
    """This process's ledger."""
    return Scribe(folder() / "ledger")


def folder() -> Path:
    """The test's folder."""
    return Path(os.environ["E2E_FOLDER"])


def name() -> str:
    """What the test calls this process."""
    return os.environ["E2E_NAME"]


def started(ctx: Ctx, **values: object) -> None:
    """Write the line of a run's start."""
    run = {"job": ctx.job_id, "attempt": ctx.attempt, "fence": ctx.fence, "name": name()}
    scribe().write("start", sync=True, **run, **values)


def ended(ctx: Ctx) -> None:
    """Write the line of a run's end."""
    scribe().write("end", job=ctx.job_id, attempt=ctx.attempt, fence=ctx.fence, name=name())


async def opened(gate: str) -> None:
    """Return once the test has made the file."""
    async with asyncio.timeout(FOR_EVER_S):
        while not (folder() / gate).exists():  # noqa: ASYNC110  another process makes the file
            await asyncio.sleep(LOOK_EVERY_S)


@task(name="quick")
async def quick(ctx: Ctx) -> str:
    """Returns at once."""
    started(ctx)
    return name()


@task(name="counted")
async def counted(ctx: Ctx) -> None:
    """Returns at once; one of so many that its line is not synced."""
    scribe().write("start", sync=False, job=ctx.job_id, attempt=ctx.attempt, fence=ctx.fence)


@task(name="brief")
async def brief(ctx: Ctx, takes_s: float) -> str:
    """Takes a moment; one of so many that its lines are not synced."""
    scribe().write("start", sync=False, job=ctx.job_id, attempt=ctx.attempt, fence=ctx.fence)
    await asyncio.sleep(takes_s)
    return ctx.job_id


@task(name="first_fails", retry=Retry(2, base=0.05, jitter="none"))
async def first_fails(ctx: Ctx) -> str:
    """Fails in its first run, and succeeds in its second."""
    started(ctx)
    if ctx.attempt == 1:
        raise ValueError("the first run fails")
    return name()


@task(name="gated")
async def gated(ctx: Ctx, gate: str) -> str:
    """Returns when the gate is opened."""
    started(ctx)
    await opened(gate)
    ended(ctx)
    return name()


_gates: dict[str, asyncio.Task[None]] = {}


@task(name="together")
async def together(ctx: Ctx, gate: str) -> None:
    """Returns when the gate is opened; one of so many that a single one of them looks, for all."""
    scribe().write("start", sync=False, job=ctx.job_id, attempt=ctx.attempt, fence=ctx.fence)
    if gate not in _gates:
        _gates[gate] = asyncio.create_task(opened(gate))
    await asyncio.wait({_gates[gate]})
    scribe().write("end", sync=False, job=ctx.job_id, attempt=ctx.attempt, fence=ctx.fence)


@task(name="stubborn")
def stubborn(ctx: Ctx, gate: str) -> str:
    """Waits for the gate in a thread, whatever it is told."""
    started(ctx)
    pause = threading.Event()
    while not (folder() / gate).exists():
        pause.wait(LOOK_EVERY_S)
    ended(ctx)
    return name()


@task(name="first_ends_as")
async def first_ends_as(ctx: Ctx, write: str, gate: str) -> str:
    """Has its first run end in (or do) one certain write; the others wait for the gate and return."""
    started(ctx)
    if ctx.attempt > 1:
        await opened(gate)
    elif write in ("retried", "failed"):
        raise ValueError(write)
    elif write == "progress":
        await ctx.progress(1, 2)
    elif write == "checkpoint":
        await ctx.checkpoint("stale")
    elif write == "offer":
        await ctx.enqueue(task_of(app_on("memory://"), "quick").options(id="stale").call())
    elif write in ("renew", "released"):
        await asyncio.sleep(FOR_EVER_S)
    ended(ctx)
    return name()


@task(name="poison")
async def poison(ctx: Ctx) -> str:
    """Kills its process, until it is mended."""
    started(ctx)
    if not (folder() / "mended").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return name()


@task(name="charge", retry=Retry(2, delays=[0.2], jitter="none"))
def charge(ctx: Ctx, fault: str) -> int:
    """Leaves its mark in an outside table under its idempotency key; its first run fails as told."""
    started(ctx, key=ctx.idempotency_key("charge"))
    if fault == "kill" and ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raise" and ctx.attempt == 1:
        raise ValueError("the first run fails")
    with closing(sqlite3.connect(folder() / "outside.db", timeout=30)) as outside, outside:
        outside.execute("insert or ignore into charges values (?)", (ctx.idempotency_key("charge"),))
    ended(ctx)
    return 1


@task(name="in_steps")
async def in_steps(ctx: Ctx, steps: int, step_s: float) -> int:
    """Takes its time in steps, and goes on after a restart where the last run had come to."""
    done = ctx.last_checkpoint or 0
    started(ctx, done=done)
    for step in range(done + 1, steps + 1):
        await asyncio.sleep(step_s)
        await ctx.checkpoint(step)
    ended(ctx)
    return steps


@task(name="reports", history=100)
async def reports(ctx: Ctx, gate: str) -> None:
    """Tells how far it is, and waits for the gate."""
    await ctx.log("begun")
    await ctx.progress(1, 2, "half", data={"rows": 7})
    await opened(gate)


@task(name="reports_in_a_thread", history=100)
def reports_in_a_thread(ctx: Ctx, gate: str) -> None:
    """Does so in a thread."""
    ctx.log_sync("begun")
    ctx.progress_sync(1, 2, "half", data={"rows": 7})
    pause = threading.Event()
    while not (folder() / gate).exists():
        pause.wait(LOOK_EVERY_S)


@task(name="reports_in_a_process", history=100, executor="process")
def reports_in_a_process(ctx: Ctx, gate: str) -> None:
    """Does so in a child process."""
    reports_in_a_thread(ctx, gate)


class Unspeakable(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        """Answer nothing."""
        raise ValueError("no text")


ODD: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "StopIteration": StopIteration,
    "Unspeakable": Unspeakable,
    "ValueError": lambda: ValueError("an ordinary one"),
}


@task(name="odd_async")
async def odd_async(kind: str) -> None:
    """Raises."""
    raise ODD[kind]()


@task(name="odd_sync")
def odd_sync(kind: str) -> None:
    """Raises in a thread."""
    raise ODD[kind]()


@task(name="unstorable", retry=Retry(3))
async def unstorable() -> Any:  # Any: what no annotation may say
    """Returns what no backend stores."""
    return object()


@task(name="overdue", timeout=0.3)
async def overdue() -> None:
    """Does not end in time."""
    await asyncio.sleep(FOR_EVER_S)


@task(name="burdened")
async def burdened(number: int) -> None:
    """Raises with ten kilobytes in its locals, which a traceback would keep alive."""
    burden = bytes(10_000)
    raise ValueError(f"{number} of {len(burden)} bytes")


@task(name="census")
async def census() -> dict[str, int]:
    """Counts what its process holds: memory, descriptors, tasks of its loop, and attempts."""
    gc.collect()
    kinds = collections.Counter(type(one).__name__ for one in gc.get_objects())
    status = Path("/proc/self/status").read_text(encoding="ascii")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "resident_bytes": int(resident.split()[1]) * 1_024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "attempts": kinds["Attempt"],
        "leases": kinds["Lease"],
    }


@task(name="blocks_the_loop")
async def blocks_the_loop(ctx: Ctx, gate: str) -> int:
    """Keeps the worker's loop from turning until the gate is opened."""
    started(ctx)
    pause = threading.Event()
    while not (folder() / gate).exists():
        pause.wait(LOOK_EVERY_S)
    ended(ctx)
    return ctx.attempt


@task(name="holds_the_gil")
def holds_the_gil(ctx: Ctx, lock: str) -> int:
    """Keeps every thread of its process from running, in its first run, until the file is unlocked."""
    started(ctx)
    if ctx.attempt == 1:
        with (folder() / lock).open() as file:
            ctypes.PyDLL(None).flock(file.fileno(), fcntl.LOCK_EX)
    ended(ctx)
    return ctx.attempt
