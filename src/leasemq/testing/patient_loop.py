"""An event loop with real input and virtual time: time jumps as soon as nothing can be heard before it.

Sockets, pipes, child processes and threads work as everywhere, and time stands still while one of them is
waited for. When the loop waits for nothing but time, that time has passed. What is open but silent (an idle
connection of a pool, a foreign thread) cannot be told from what will answer in a moment: each jump then waits
`HEARING_S` first.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from leasemq.errors import InvalidSetting, VirtualTimeStuck
from leasemq.worker.threads import Done, Threads

HEARING_S = 1.0  # real time for something that may be heard, before virtual time passes it by
THREAD_HEARING_S = 30.0  # the same for a function that is known to run in a thread,
LONGEST_HEARING_S = 120.0  # and for all such waits in a row; then it is one that never ends
RESOLUTION_S = 1e-6  # far above the rounding of floats, far below a millisecond
ONES_OWN = (
    "leasemq-job",
    "leasemq-shared",
    "leasemq-testing",
    "leasemq-sync",
    "asyncio_",
)  # they are counted
PIPE_TO_ITSELF = 1  # the one file that every loop has open


class PatientLoop(asyncio.SelectorEventLoop):
    """See the module. Owner: the thread that runs it; `busy` is changed in that thread only."""

    def __init__(self) -> None:
        self.busy = 0  # calls in threads that somebody here waits for
        self.unheard_s = 0.0  # real time that they were waited for in vain
        self._now_s = 0.0
        self._leap: tuple[float, asyncio.Future[None]] | None = None
        self._known = set(threading.enumerate())
        super().__init__(_Ears(self))
        self._clock_resolution = RESOLUTION_S
        self.slow_callback_duration = math.inf  # what a jump skips was spent by nobody

    def time(self) -> float:
        """Answer the virtual seconds since the loop was made."""
        return self._now_s

    def jump(self, seconds: float) -> None:
        """Let time pass with nothing running, as when the whole process is frozen."""
        if not seconds >= 0:
            raise InvalidSetting(f"seconds must not be negative, got {seconds!r}; time only goes forward")
        self._now_s += seconds

    async def leap(self, seconds: float = 0.0) -> None:
        """Jump once everything that was ready has run; 0 waits for just that. For one caller at a time.

        Returns without a jump when `stay` is called before.
        """
        leapt: asyncio.Future[None] = self.create_future()
        self._leap = (seconds, leapt)
        await leapt

    def stay(self) -> None:
        """Call off a leap that somebody waits for: there is something to do now."""
        self.has_leapt(is_carried_out=False)

    def has_leapt(self, *, is_carried_out: bool = True) -> bool:
        """Carry out a leap that somebody waits for; answers whether there was one."""
        if self._leap is None:
            return False
        (seconds, leapt), self._leap = self._leap, None
        if is_carried_out and not leapt.done():
            self.jump(seconds)
        if not leapt.done():
            leapt.set_result(None)
        return True

    def run_in_executor(  # type: ignore[override]  # the stubs tie args to the function; this one is wider
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function in a thread; time stands still until it ends."""
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self.busy += 1
        future.add_done_callback(self.is_back)
        return future

    def hearing_s(self, open_files: int) -> float:
        """Answer how long something from outside may still be heard; 0: there is nothing outside."""
        if self.busy and self.unheard_s < LONGEST_HEARING_S:
            return THREAD_HEARING_S
        if open_files > PIPE_TO_ITSELF or self._has_foreign_threads():
            return HEARING_S
        return 0.0

    def give_up(self) -> NoReturn:
        """Raise: no time will ever end this wait."""
        raise VirtualTimeStuck(
            f"nothing is ready and no timer is left at {self._now_s:.3f} virtual seconds; "
            "something waits for what nobody will do"
        )

    def is_back(self, _: asyncio.Future[Any]) -> None:
        """Count one less of those in threads."""
        self.busy -= 1

    def _has_foreign_threads(self) -> bool:
        now = threading.enumerate()
        return any(one not in self._known and not one.name.startswith(ONES_OWN) for one in now)


class CountedThreads(Threads):
    """Threads for which time stands still while one of them works. Owner: as of `Threads`."""

    def __init__(self, name: str, loop: PatientLoop) -> None:
        super().__init__(name)
        self._loop = loop

    def start(self, call: Callable[[], Any]) -> asyncio.Future[Done]:
        """See `Threads.start`."""
        future = super().start(call)
        self._loop.busy += 1
        future.add_done_callback(self._loop.is_back)
        return future


class _Ears(selectors.PollSelector):
    """Waits for input in real time, and lets virtual time pass when there is none. Owned by its loop."""

    def __init__(self, loop: PatientLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Answer what is heard; none: the time is over, which took no time unless something is open."""
        heard = super().select(0)
        if heard:
            self._loop.unheard_s = 0.0
        if heard or timeout == 0 or self._loop.has_leapt():
            return heard
        hearing_s = self._loop.hearing_s(len(self.get_map()))
        if hearing_s:
            waited_s = hearing_s if timeout is None else min(hearing_s, timeout)
            heard = super().select(waited_s)
            self._loop.unheard_s = 0.0 if heard else self._loop.unheard_s + waited_s
        elif timeout is None:
            self._loop.give_up()
        if not heard and timeout is not None:
            self._loop.jump(timeout)
        return heard
