"""Functions for child processes: at the top level of a module, where a child can import them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Annotated, Any, cast

from leasemq import App, Ctx
from leasemq.context import running_job
from leasemq.errors import Dead, LeaseLost, RetryAfter, Snooze
from leasemq.protocol.shape import Secret

app = App("memory://")
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
app.carry(tenant)


class Declined(Exception):
    """Declared by the task that raises it."""

    def __init__(self, code: str, lock: Any = None) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.lock = lock


def declining(code: str, is_odd: bool) -> None:
    raise Declined(code, open if is_odd else None)


class Hopeless(Exception):
    """A retry policy gives up on it."""


def add(one: int, other: int) -> int:
    return one + other


def pid() -> int:
    return os.getpid()


async def in_a_loop(ctx: Ctx, number: int) -> int:
    await ctx.log("from a loop")
    await asyncio.sleep(0)
    return number


def alarming() -> None:
    signal.alarm(1)
    signal.setitimer(signal.ITIMER_PROF, 0.2)


def computing() -> str:
    """Take longer than the timers of `alarming` would let it."""
    until_s = time.monotonic() + 1.2
    while time.monotonic() < until_s:
        pass
    return "done"


def forking(ctx: Ctx) -> str:
    """Come back twice."""
    child = os.fork()
    if not child:
        ctx.progress_sync(99)
    if child:
        os.waitpid(child, 0)
    return "from the child" if child else "from what it forked"


def raising(name: str) -> None:
    from tests.worker.test_outcomes import RAISED  # here: no other child should have to load a test module

    raise RAISED[name]()


def hopeless() -> None:
    raise Hopeless


def verdict(name: str) -> None:
    raise {"snooze": Snooze(3600), "later": RetryAfter(3600, "busy"), "dead": Dead("no use")}[name]


def sign_in(user: str, password: Annotated[str, Secret]) -> None:
    raise ValueError(f"{user} cannot sign in with {password!r}")


def not_a_number() -> int:
    return cast("int", "text")


def long_text(length: int) -> str:
    return "x" * length


def length(text: str) -> int:
    return len(text)


def end_with(code: int) -> None:
    os._exit(code)


def end_by(number: int) -> None:
    os.kill(os.getpid(), number)
    wait_for_ever()


def wait_for_ever() -> None:
    while True:
        signal.pause()


def run_until_ended(folder: str) -> None:
    """Say that it runs, then wait for its end."""
    _say(folder)
    wait_for_ever()


def ignore_the_order_to_end(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say(folder)
    for _ in count():  # in Python code all the time
        pass


def hold_the_interpreter(folder: str) -> None:
    """Never give another thread of this process a turn."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.setswitchinterval(1e6)
    _say(folder)
    sum(1 for _ in count())


def clean_up_when_told_to_end(folder: str) -> None:
    def clean_up(number: int, frame: Any) -> None:
        (Path(folder) / "cleaned").touch()
        os._exit(0)

    signal.signal(signal.SIGTERM, clean_up)
    _say(folder)
    wait_for_ever()


def take(size_bytes: int) -> int:
    return len(bytearray(size_bytes))


def all_of_ctx(ctx: Ctx) -> dict[str, Any]:
    assert running_job.get() == ctx.ref
    before = ctx.last_checkpoint
    ctx.progress_sync(1, 2)
    ctx.log_sync("a line")
    ctx.checkpoint_sync({"attempt": ctx.attempt})
    if before is None:
        raise ValueError("once more")
    return {
        "fence": ctx.fence,
        "key": ctx.idempotency_key("step"),
        "attempt": ctx.attempt,
        "failures": ctx.failures,
        "before": before,
        "cancelled": ctx.cancelled,
        "task": ctx.task,
    }


def note_when_let_go(ctx: Ctx, folder: str) -> None:
    """Write a note when the test says so, and leave behind what came of it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say(folder)
    (Path(folder) / "gate").read_text()  # a pipe: this waits for the test to open it too
    refused = 0
    for write in (
        lambda: ctx.log_sync("late"),
        lambda: ctx.progress_sync(1),
        lambda: ctx.checkpoint_sync("late"),
        lambda: ctx.enqueue_sync(with_surroundings.call()),
    ):
        try:
            write()
        except LeaseLost:
            refused += 1
    (Path(folder) / f"lost-{refused}").touch()
    raise LeaseLost("all of them")


def with_children(ctx: Ctx) -> list[str]:
    """Enqueue one in each way, and answer their ids."""
    one = ctx.enqueue_sync(with_surroundings.options(queue="q", id="one").call())
    other = asyncio.run(ctx.enqueue(with_surroundings.options(queue="q", id="other").call()))
    return [one.id, other.id]


def _say(folder: str) -> None:
    """Leave the process id where the test looks for it; whole, or not at all."""
    told = Path(folder) / f"pid-{os.getpid()}.tmp"
    told.write_text(str(os.getpid()))
    told.rename(Path(folder) / "pid")


def connection() -> Iterator[list[str]]:
    """A dependency."""
    held = ["open"]
    yield held
    held.append("closed")


@app.task(name="with_surroundings", executor="process")
def with_surroundings(ctx: Ctx) -> list[str]:
    return [tenant.get(), *ctx.use_sync(connection)]
