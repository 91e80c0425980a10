"""Functions that outlive their time: told to stop, given up at last, their slots taken until they return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from leasemq.clock import Clock
from leasemq.events import HandlerAbandoned, HandlerReturned, Herald
from leasemq.worker.attempt import Attempt
from leasemq.worker.routine import Executor

_left_behind: set[asyncio.Task[object]] = set()  # until they end, or the process does


@dataclass(frozen=True, slots=True)
class _Stuck:
    attempt: Attempt
    since_ms: int


class Overdue:
    """The time-outs of what runs, and the functions whose jobs were given up. Owner: the attempts.

    Args:
        abandon_after_ms: How long after its time-out a function that still runs loses its job; None: one
            lease of its own, and never later: the keeper renews no attempt beyond that.
        give_up: Ends the attempt without its function.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        herald: Herald,
        *,
        slots: int,
        abandon_after_ms: int | None,
        give_up: Callable[[Attempt], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._herald = herald
        self._slots = slots
        self._abandon_after_ms = abandon_after_ms
        self._give_up = give_up
        self.on_begin: Callable[[Attempt], None] = lambda _: None
        self._timers: dict[int, asyncio.Handle] = {}
        self._stuck: dict[int, _Stuck] = {}
        self.is_clogged = False  # once more than half of the slots are stuck, or one that must run alone

    @property
    def stuck(self) -> int:
        """How many slots are taken by functions whose jobs were given up."""
        return len(self._stuck)

    def begin(self, attempt: Attempt, lease_ms: int) -> None:
        """Let its time run from now, if it is limited."""
        self.on_begin(attempt)
        if attempt.timeout_ms is not None:
            after_ms = min(self._abandon_after_ms or lease_ms, lease_ms)
            self._timers[attempt.serial] = self._loop.call_later(
                attempt.timeout_ms / 1_000, self._ring, attempt, after_ms
            )
            if attempt.routine.runs_in is Executor.LOOP:
                attempt.is_late = partial(self._is_past, self._clock() + attempt.timeout_ms)

    def end(self, attempt: Attempt) -> None:
        """Its function has ended."""
        timer = self._timers.pop(attempt.serial, None)
        if timer is not None:
            timer.cancel()
        stuck = self._stuck.pop(attempt.serial, None)
        if stuck is not None:
            lease = attempt.lease
            self._herald.tell(
                HandlerReturned(
                    ref=lease.ref,
                    task=lease.task,
                    attempt=lease.attempts,
                    fence=lease.fence.number,
                    after_ms=self._clock() - stuck.since_ms,
                )
            )

    def leave_all(self) -> list[Attempt]:
        """Watch nothing any more; answers the attempts whose functions are stuck."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        return [one.attempt for one in self._stuck.values()]

    def _is_past(self, deadline_ms: int) -> bool:
        return self._clock() > deadline_ms

    def _ring(self, attempt: Attempt, after_ms: int) -> None:
        """Look in the next turn: what ended while the loop was busy has ended in time, and is heard first."""
        self._timers[attempt.serial] = self._loop.call_soon(self._time_out, attempt, after_ms)

    def _time_out(self, attempt: Attempt, after_ms: int) -> None:
        if attempt.task is None or attempt.task.done():
            return
        if not attempt.is_told_to_stop:
            attempt.timed_out = True
            stop(attempt)
        self._timers[attempt.serial] = self._loop.call_later(after_ms / 1_000, self._abandon, attempt)

    def _abandon(self, attempt: Attempt) -> None:
        del self._timers[attempt.serial]
        if attempt.task is None or attempt.task.done():
            return
        attempt.is_over = True  # all that it writes from now on is refused
        self._stuck[attempt.serial] = _Stuck(attempt, self._clock())
        lease = attempt.lease
        self.is_clogged |= lease.suspect or 2 * len(self._stuck) > self._slots
        self._herald.tell(
            HandlerAbandoned(
                ref=lease.ref,
                task=lease.task,
                attempt=lease.attempts,
                fence=lease.fence.number,
                stuck=len(self._stuck),
                slots=self._slots,
            )
        )
        self._give_up(attempt)


def stop(attempt: Attempt) -> None:
    """Cancel a function in the loop. One in a thread sees a flag, and so does one not yet entered."""
    if attempt.on_stop is not None:
        attempt.on_stop()
    elif attempt.routine.runs_in is Executor.LOOP and attempt.started and attempt.task is not None:
        attempt.task.cancel()


def leave_behind(attempt: Attempt) -> None:
    """Let the program end although this function does not: `asyncio.run` waits for every task it knows of.

    The functions of asyncio used here are those for foreign kinds of tasks:
    https://docs.python.org/3/library/asyncio-extending.html
    """
    task = attempt.task
    if task is None or task.done():
        return
    if attempt.routine.runs_in is not Executor.LOOP:
        task.cancel()  # nobody waits for its thread any more
    asyncio.tasks._unregister_task(task)
    _left_behind.add(task)  # a loop knows its tasks weakly, and closing a coroutine runs the user's code
    task.add_done_callback(_left_behind.discard)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does; it was told already
