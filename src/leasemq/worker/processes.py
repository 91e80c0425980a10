"""Functions in child processes: a pool that starts them as needed, keeps them, and ends them to stop a job.

An attempt has a child to itself, and its slot until the child is idle again or dead: what cannot be
stopped in a thread is stopped here by ending the process.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from leasemq.context import RunningAttempt
from leasemq.errors import ChildCrashed, InvalidSetting, LeaseMQError
from leasemq.protocol.decide import Happened, Interrupted, Raised
from leasemq.protocol.names import shown
from leasemq.worker.attempt import Attempt
from leasemq.worker.child_process import ChildProcess
from leasemq.worker.importable import lesson
from leasemq.worker.outcome import raised
from leasemq.worker.pipe import (
    Ended,
    FromChild,
    Learn,
    Learned,
    NoteAnswer,
    NoteAsked,
    Run,
    happened_of,
)
from leasemq.worker.routine import Routine

GRACE_MS = 500  # from SIGTERM to SIGKILL
HASTY_GRACE_MS = 150  # the same once the worker is stopping: shorter than what it gives functions to end
START_S = 60.0  # for a child to come up and import the function's module
LAST_NOTE_MS = 100  # for a function to see that its note was refused because its lease is lost
REAPED_S = 1.0  # for killed ones to be gone
STRAY_SIGNAL_S = 0.2  # for the worker to hear of the signal that ended a child beside it
_GROUP_SIGNALS = frozenset({-signal.SIGTERM, -signal.SIGINT})


class Processes:
    """The child processes of one worker. Owner: its executors, in its loop.

    Args:
        stopping: set when the worker was told to stop.
    """

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._lessons: dict[str, Learn] = {}

    async def run(self, attempt: Attempt) -> Happened | None:
        """Run one attempt in a child, and answer what happened; None: its lease is lost."""
        child = self._idle.pop() if self._idle else self._start()
        attempt.on_stop = partial(self._stop, attempt, child)
        told: Ended | Raised | None = None
        try:
            told = await self._converse(attempt, child)
            if not self._is_reusable(child, told):
                child.terminate(HASTY_GRACE_MS)
                await child.gone
        finally:
            attempt.on_stop = None
            if self._is_reusable(child, told):
                self._idle.append(child)
            elif not child.is_gone:
                child.kill()  # nobody waits any more
        if told is None:
            return await self._ended_early(attempt, child)
        return happened_of(told) if isinstance(told, Ended) else told

    async def close(self) -> None:
        """End all children: idle ones by themselves if they are quick, and return when none is left."""
        try:
            for child in self._idle:
                child.dismiss()
            for child in self._all.difference(self._idle):
                child.kill()
            await _all_gone(self._all, HASTY_GRACE_MS / 1_000)
        finally:
            for child in self._all:
                child.kill()
        await _all_gone(self._all, REAPED_S)

    def _start(self) -> ChildProcess:
        child = ChildProcess(self._forget)
        self._all.add(child)
        return child

    def _forget(self, child: ChildProcess) -> None:
        self._all.discard(child)
        with suppress(ValueError):
            self._idle.remove(child)

    def _is_reusable(self, child: ChildProcess, told: Ended | Raised | None) -> bool:
        is_done = isinstance(told, Ended) and not told.is_worn
        return is_done and not (child.is_told_to_end or child.is_gone)

    async def _converse(self, attempt: Attempt, child: ChildProcess) -> Ended | Raised | None:
        """Have the child run the function, and store its notes; None: it ended without a word."""
        name = attempt.routine.name
        if name not in child.known:
            try:
                told = await self._teach(attempt.routine, child)
            except InvalidSetting as error:
                return raised(error, attempt.retry)
            if not isinstance(told, Learned):
                return None
            if told.error is not None:
                return Raised(error=told.error, retryable=attempt.retry is not None)
            child.known.add(name)
        if child.is_told_to_end:
            return None
        child.say(_order(attempt))
        while isinstance(said := await child.hear(), NoteAsked):
            child.is_asking = True
            answer = await _stored(attempt, child, said)
            child.is_asking = False
            child.say(answer)
        return said if isinstance(said, Ended) else None

    async def _teach(self, routine: Routine, child: ChildProcess) -> FromChild | None:
        if routine.name not in self._lessons:
            self._lessons[routine.name] = lesson(routine)
        child.say(self._lessons[routine.name])
        try:
            async with asyncio.timeout(START_S):
                return await child.hear()
        except TimeoutError:
            child.trouble = f"it did not come up and import {routine.name} within {START_S:g} s"
            return None

    def _stop(self, attempt: Attempt, child: ChildProcess) -> None:
        """End the child: at once where another attempt may be running, else with a chance to clean up."""
        is_stopping = self._stopping.is_set()
        if attempt.lost and child.is_asking:
            child.kill_in(LAST_NOTE_MS)
        elif attempt.lost or (attempt.interrupted and not is_stopping):
            child.kill()
        else:
            child.terminate(HASTY_GRACE_MS if is_stopping else GRACE_MS)

    async def _ended_early(self, attempt: Attempt, child: ChildProcess) -> Happened | None:
        """Answer what it means that a child has ended without an outcome."""
        if attempt.lost:
            return None
        if attempt.is_told_to_stop:
            return Interrupted()
        if child.exit_code in _GROUP_SIGNALS and await self._is_told_to_stop_too():
            return Interrupted()
        return raised(ChildCrashed(_crash(attempt, child)), attempt.retry)

    async def _is_told_to_stop_too(self) -> bool:
        """Whether the signal that ended a child went to the worker too: it may hear of it a little later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STRAY_SIGNAL_S):
                await self._stopping.wait()
        return self._stopping.is_set()


def _order(attempt: Attempt) -> Run:
    lease, routine = attempt.lease, attempt.routine
    return Run(
        routine.name,
        RunningAttempt(ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number),
        b"" if routine.takes_context else lease.payload,
        lease.headers if routine.carried is not None else b"",
        attempt.retry is not routine.retry,
        lease if routine.takes_context else None,
    )


async def _stored(attempt: Attempt, child: ChildProcess, asked: NoteAsked) -> NoteAnswer:
    """Store a note as long as the child lives to hear the answer."""
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(_answer(attempt, asked))
        await asyncio.wait({writing, child.gone}, return_when=asyncio.FIRST_COMPLETED)
        writing.cancel()
    return NoteAnswer(LeaseMQError.__name__, "") if writing.cancelled() else writing.result()


async def _answer(attempt: Attempt, asked: NoteAsked) -> NoteAnswer:
    try:
        await attempt.write(asked.kind, asked.value, queue=asked.queue, child=asked.child)
    except LeaseMQError as error:
        return NoteAnswer(type(error).__name__, str(error))
    return NoteAnswer(None, "")


async def _all_gone(children: Iterable[ChildProcess], within_s: float) -> None:
    living = [child.gone for child in children]
    if living:
        await asyncio.wait(living, timeout=within_s)


def _crash(attempt: Attempt, child: ChildProcess) -> str:
    code, place = child.exit_code or 0, f"the child process of task {shown(attempt.routine.name)}"
    if child.trouble:
        return f"{place} failed: {child.trouble}"
    if code >= 0:
        return f"{place} (pid {child.pid}) ended with exit code {code} before the function returned"
    hint = "; the system may have been out of memory" if code == -signal.SIGKILL else ""
    return f"{place} (pid {child.pid}) was killed by {_signal_name(-code)} while the function ran{hint}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
