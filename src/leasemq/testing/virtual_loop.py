"""An asyncio event loop whose time is virtual: an hour passes as soon as nothing is left to do before it.

One thread, no sockets, no signals, no executor. With a seed, whichever callback is ready may run next, so
one seed is one interleaving, and the same seed is the same interleaving again. What runs on it must take
its own dice and clock as values, or it brings its own disorder. `call_soon_threadsafe` answers only its own
thread, and `run_in_executor` is refused: a foreign thread would run in real time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn, TypeVar

from leasemq.errors import InvalidSetting, Unsupported, VirtualTimeStuck

EPOCH_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DAY_S = 86_400.0
MAX_STEPS = 1_000_000
CLEANUP_STEPS = 10_000  # what a loop that was stopped may still spend on cancelling its tasks
RESOLUTION_S = 1e-6  # far above the rounding of floats, far below a millisecond

T = TypeVar("T")


class VirtualLoop(base_events.BaseEventLoop):
    """A deterministic event loop in virtual time.

    Args:
        seed: Dice for the order of ready callbacks; None keeps asyncio's own order.
        max_virtual_s: Virtual seconds after which the loop gives up.
        max_steps: Rounds of callbacks after which the loop gives up.

    Raises:
        VirtualTimeStuck: From the running call, when the main coroutine waits for something that can no
            longer come, or a limit is reached; the message lists what each task waits for.
    """

    _scheduled: list[events.TimerHandle]  # asyncio's heap of timers, which the stubs leave out

    def __init__(
        self, seed: int | None = None, *, max_virtual_s: float = DAY_S, max_steps: int = MAX_STEPS
    ) -> None:
        super().__init__()
        self.steps = 0
        self._now_s = 0.0
        self._max_virtual_s = max_virtual_s
        self._max_steps = max_steps
        self._serial = itertools.count(1)
        self._clock_resolution = RESOLUTION_S
        self._selector = _TimeSelector(self._pass_until_next_timer)
        if seed is not None:
            self._ready = _ShuffledDeque(random.Random(seed))  # noqa: S311 - a test's dice are no secret
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        """Answer the virtual seconds since the loop was made."""
        return self._now_s

    def jump(self, seconds: float) -> None:
        """Let virtual time pass with nothing running, as when the whole process is frozen."""
        if not seconds >= 0:
            raise InvalidSetting(f"seconds must not be negative, got {seconds!r}; time only goes forward")
        self._move_to(self._now_s + seconds)

    def create_future(self) -> asyncio.Future[Any]:
        """A future whose place in a set does not depend on its address."""
        return _VirtualFuture(next(self._serial), loop=self)

    def call_soon_threadsafe(  # type: ignore[override]  # the stubs tie args to the callback; this one is wider
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.Handle:
        """Like `call_soon`; refused from any thread but the loop's own."""
        owner: int | None = getattr(self, "_thread_id", None)
        if owner is not None and owner != threading.get_ident():
            raise Unsupported("a virtual loop has one thread, and this is another; use a real loop")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # it answers nothing, for any function
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> NoReturn:
        """Refused: a thread runs in real time."""
        raise Unsupported(f"a virtual loop runs no thread, got {func!r}; call it directly or use a real loop")

    def _new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> _VirtualTask:
        return _VirtualTask(next(self._serial), coro, loop=loop, **options)

    def _run_once(self) -> None:
        self.steps += 1
        if self.steps > self._max_steps:
            self._give_up(f"{self.steps - 1:,} steps were taken")
        super()._run_once()  # type: ignore[misc]  # the stubs leave out asyncio's one turn of the loop

    def _pass_until_next_timer(self) -> None:
        if not self._scheduled:
            self._give_up("nothing is ready and no timer is left")
        self._move_to(self._scheduled[0].when())

    def _move_to(self, when_s: float) -> None:
        if when_s > self._max_virtual_s:
            self._give_up(f"virtual time would pass {self._max_virtual_s:,.0f} s")
        self._now_s = max(self._now_s, when_s)

    def _give_up(self, cause: str) -> NoReturn:
        waiting = "".join(f"\n  {line}" for line in sorted(map(_where, asyncio.all_tasks(self))))
        self._max_steps = self.steps + CLEANUP_STEPS
        self._max_virtual_s = max(self._max_virtual_s, self._now_s) + DAY_S
        raise VirtualTimeStuck(
            f"{cause} at {self._now_s:.3f} virtual seconds, and the main coroutine is not done;"
            f" wake what it waits for, or raise the limit. Unfinished tasks:{waiting or ' none'}"
        )

    def _process_events(self, event_list: list[object]) -> None:
        """Nothing: there is no input but time."""

    def _write_to_self(self) -> None:
        """Nothing: no thread but the loop's own can add work."""


class VirtualClock:
    """A backend's clock in step with a virtual loop. Owned by the test; `step` changes it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._skew_ms = 0

    @classmethod
    def of_running_loop(cls) -> VirtualClock:
        """The clock of the virtual loop that runs the caller."""
        return cls(_running_virtual_loop())

    def now_ms(self) -> int:
        """Answer the backend's time, ms since the epoch; starts at `EPOCH_MS`."""
        return EPOCH_MS + self.boot_ms() + self._skew_ms

    def boot_ms(self) -> int:
        """Answer the loop's own time in ms: a clock that no step moves, for local deadlines."""
        return round(self._loop.time() * 1000)

    def advance(self, ms: int) -> None:
        """Let time pass for the loop and the backend, with nothing running meanwhile."""
        self._loop.jump(ms / 1000)

    def step(self, ms: int) -> None:
        """Jump the backend's clock, forward or (negative) back; no time passes for the loop."""
        self._skew_ms += ms


def run_virtual(
    coro: Coroutine[Any, Any, T],
    *,
    seed: int | None = None,
    max_virtual_s: float = DAY_S,
    max_steps: int = MAX_STEPS,
) -> T:
    """Run a coroutine on a virtual loop of its own and answer its result, as `asyncio.run` does.

    Raises:
        VirtualTimeStuck: See `VirtualLoop`.
    """

    def new_loop() -> VirtualLoop:
        return VirtualLoop(seed, max_virtual_s=max_virtual_s, max_steps=max_steps)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(coro)


async def pass_time(seconds: float) -> None:
    """Let virtual time pass while everything else runs.

    Raises:
        Unsupported: On a real loop, where it would be a sleep.
    """
    _running_virtual_loop()
    await asyncio.sleep(seconds)


class _TimeSelector:
    """What asyncio asks to wait for input or the next timer; here only time can come."""

    def __init__(self, pass_until_next_timer: Callable[[], None]) -> None:
        self._pass_until_next_timer = pass_until_next_timer

    def select(self, timeout: float | None) -> list[object]:
        if timeout != 0:
            self._pass_until_next_timer()
        return []


class _ShuffledDeque(deque[events.Handle]):
    """A ready queue that hands out any of its callbacks. Owned by its loop."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice

    def popleft(self) -> events.Handle:
        if len(self) > 1:
            drawn = self._dice.randrange(len(self))
            self[0], self[drawn] = self[drawn], self[0]
        return super().popleft()


# asyncio keeps tasks in sets (TaskGroup, wait, all_tasks). A hash from the address would order a set
# differently in every process; a serial number orders it the same way each time.


class _VirtualFuture(asyncio.Future[Any]):
    def __init__(self, serial: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._serial = serial
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._serial


class _VirtualTask(asyncio.Task[Any]):
    def __init__(self, serial: int, coro: Any, **options: Any) -> None:
        self._serial = serial
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._serial


def _running_virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise Unsupported(f"needs a VirtualLoop, got {type(loop).__name__}; start with run_virtual(...)")
    return loop


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "its first step"
    return f"{task.get_name()} waits at {place}"
