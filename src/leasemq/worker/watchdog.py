"""Tells which function keeps the event loop from turning, and at which line, while it does.

A daemon thread asks the loop for an answer, again and again while something runs. What stays out is a
block if the loop is inside one job's function all the while. Two things look like it and are not: a process
that was frozen, whose own looks are late too, so that time counts only as far as the thread could look; and
a function that holds the GIL. There the thread is late as well, but has woken up all the time to ask for the
GIL, which the kernel counted (take_gil in CPython's Python/ceval_gil.c asks every `sys.getswitchinterval()`).
"""

from __future__ import annotations

import asyncio
import inspect
import resource
import sys
import sysconfig
import threading
from collections import deque
from dataclasses import dataclass
from types import FrameType

from leasemq.clock import Clock
from leasemq.context import running_attempt
from leasemq.events import Herald, LoopStalled, LoopTurned
from leasemq.worker.attempt import Attempt

LOOKS = 8  # in the time after which a block is told
ASKED_LEAST, ASKED_EACH_MS = 6, 60  # it asks each 5 ms, on a busy machine 50; its own waits are one or two
BEGUN_MOST = 1_024  # starts remembered between two looks
_OUTSIDE = ("leasemq.worker", "asyncio.events", "asyncio.base_events", "asyncio.runners")
_DEBUGGERS = frozenset({"bdb", "pdb", "pydevd", "_pydevd_bundle", "debugpy"})
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = (*(sysconfig.get_path(name) for name in _PLACES), "<")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    is_over: bool  # what was waited for has come
    passed_ms: int  # as far as this thread could see


class Watchdog:
    """Watches one loop. Owner: the crew. `began` is the loop's side, `watch` the thread's."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, herald: Herald, clock: Clock, stall_after_ms: int
    ) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._herald = herald
        self._clock = clock
        self._stall_after_ms = stall_after_ms
        self._look_ms = max(1, stall_after_ms // LOOKS)
        self._begun: deque[Attempt] = deque(maxlen=BEGUN_MOST)
        self._running: list[Attempt] = []
        self._held_gil: Attempt | None = None  # told last
        self._is_idle = False
        self._woken_ms = self._marked_ms = clock()
        self._marked_switches = 0
        self._woken = threading.Event()
        self._stopped = threading.Event()

    # ---- the loop's side

    def began(self, attempt: Attempt) -> None:
        """Watch while this one runs."""
        self._begun.append(attempt)
        if self._is_idle:
            self._woken_ms = self._clock()
            self._woken.set()

    def stop(self) -> None:
        """Watch no more. From any thread."""
        self._stopped.set()
        self._woken.set()

    # ---- the thread's side

    def watch(self) -> None:
        """Watch until stopped."""
        self._marked_switches = _switches()
        while not self._stopped.is_set():
            self._wait_for_work()
            self._look(self._stopped, 2 * self._look_ms)
            if not self._stopped.is_set():
                self._ask()

    def _wait_for_work(self) -> None:
        self._refresh()
        while not (self._running or self._stopped.is_set()):
            self._woken_ms = self._clock()
            self._is_idle = True
            if not self._begun:
                self._woken.wait()
            self._is_idle = False
            self._woken.clear()
            self._was_starved(self._woken_ms)

    def _ask(self) -> None:
        """Ask the loop for an answer, and tell once if it does not come."""
        answered = threading.Event()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            self._stopped.set()
        told: Attempt | None = None
        suspect: Attempt | None = None
        blocked_ms = same_ms = 0
        while not self._stopped.is_set():
            look = self._look(answered, self._look_ms)
            blocked_ms += look.passed_ms
            if look.is_over:
                break
            at_fault = self._at_fault()
            same_ms = same_ms + look.passed_ms if at_fault is suspect else 0
            suspect = at_fault
            if told is not None or suspect is None or suspect is self._held_gil:
                continue
            if same_ms >= self._stall_after_ms:
                told = suspect
                self._tell_stalled(told, blocked_ms, _line(self._stack(), told), holds_gil=False, others=0)
        if told is not None:
            lease = told.lease
            self._herald.tell(
                LoopTurned(
                    ref=lease.ref,
                    task=lease.task,
                    attempt=lease.attempts,
                    fence=lease.fence.number,
                    blocked_ms=blocked_ms,
                )
            )

    def _look(self, awaited: threading.Event, wait_ms: int) -> _Look:
        """Wait that long at most, and answer what came of it."""
        is_over = awaited.wait(wait_ms / 1_000)
        passed_ms = self._clock() - self._marked_ms
        is_starved = self._was_starved(self._marked_ms + wait_ms)
        return _Look(is_over=is_over, passed_ms=passed_ms if is_starved else min(passed_ms, 2 * wait_ms))

    def _was_starved(self, due_ms: int) -> bool:
        """See whether this thread, due to run then, could not get the GIL; then tell of who held it."""
        now_ms, switches = self._clock(), _switches()
        late_ms = now_ms - due_ms
        asked = switches - self._marked_switches
        is_starved = late_ms >= self._stall_after_ms and asked >= max(ASKED_LEAST, late_ms // ASKED_EACH_MS)
        self._marked_ms, self._marked_switches = now_ms, switches
        self._refresh(ended_too=is_starved)
        if is_starved:
            self._tell_starved(late_ms)
            self._refresh()
        return is_starved

    def _refresh(self, *, ended_too: bool = False) -> None:
        while self._begun:
            self._running.append(self._begun.popleft())
        if not ended_too:
            self._running = [one for one in self._running if not _has_ended(one)]

    def _at_fault(self) -> Attempt | None:
        """Answer in whose function the loop is; None: in nobody's, or in a debugger."""
        task = asyncio.current_task(self._loop)
        if task is None or _is_debugged(self._stack()):
            return None
        own = next((one for one in self._running if one.task is task), None)
        if own is not None or not hasattr(task, "get_context"):  # Python 3.11 cannot ask for it
            return own
        told = task.get_context().get(running_attempt)  # a task that a function has started
        if told is None:
            return None
        return next((one for one in self._running if _is_of(one, told.ref, told.fence)), None)

    def _stack(self) -> FrameType | None:
        return sys._current_frames().get(self._loop_thread)

    def _tell_starved(self, held_ms: int) -> None:
        """Tell of a function that held the GIL: it has just let it go, or ended."""
        if not self._running:
            return
        stacks = list(sys._current_frames().values())
        likely = self._running[::-1]
        likely.sort(key=_has_ended)  # what still runs first, and of that what began last
        found = [(one, where) for one in likely if (where := _line_in(stacks, one))]
        holder, where = found[0] if found else (likely[0], None)
        if holder is not self._held_gil:
            self._held_gil = holder
            self._tell_stalled(holder, held_ms, where, holds_gil=True, others=len(self._running) - 1)

    def _tell_stalled(
        self, attempt: Attempt, blocked_ms: int, where: str | None, *, holds_gil: bool, others: int
    ) -> None:
        lease = attempt.lease
        self._herald.tell(
            LoopStalled(
                ref=lease.ref,
                task=lease.task,
                attempt=lease.attempts,
                fence=lease.fence.number,
                blocked_ms=blocked_ms,
                where=where,
                holds_gil=holds_gil,
                others=others,
            )
        )


def _switches() -> int:
    """Answer how often this thread has gone to sleep."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _has_ended(attempt: Attempt) -> bool:
    return attempt.task is None or attempt.task.done()


def _is_of(attempt: Attempt, ref: object, fence: int) -> bool:
    return attempt.lease.ref == ref and attempt.lease.fence.number == fence


def _is_debugged(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False


def _line_in(stacks: list[FrameType], attempt: Attempt) -> str | None:
    """Answer the line at which a function is, in whichever thread; None: it is on none of the stacks."""
    code = getattr(inspect.unwrap(attempt.routine.call), "__code__", None)
    for innermost in stacks:
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code is code:
                return _line(innermost, attempt)
            frame = frame.f_back
    return None


def _line(innermost: FrameType | None, attempt: Attempt) -> str | None:
    """Answer where a job's code is: the innermost line that is not a library's, else its function's own."""
    frames: list[FrameType] = []
    frame = innermost
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith(_OUTSIDE):
        frames.append(frame)
        frame = frame.f_back
    if not frames:
        return None
    code = getattr(inspect.unwrap(attempt.routine.call), "__code__", None)
    own = [one for one in frames if not one.f_code.co_filename.startswith(_LIBRARIES)]
    own += [one for one in frames if code is not None and one.f_code.co_filename == code.co_filename]
    chosen = own[0] if own else frames[0]
    return f"{chosen.f_code.co_filename}:{chosen.f_lineno} in {chosen.f_code.co_qualname}"
