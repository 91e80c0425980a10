"""What runs in a child process: one attempt at a time, told and answered over one socket.

The main thread reads the socket, runs the function and answers. A second thread only waits for the
worker's end of the socket to close, so that no function outlives its worker.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from leasemq import errors
from leasemq.carried import Carried
from leasemq.context import Ctx, running_attempt, running_job
from leasemq.dependencies import NO_DEPENDENCIES, Dependencies
from leasemq.logs import print_as_told
from leasemq.protocol.decide import Happened
from leasemq.protocol.declared import DeclaredErrors
from leasemq.protocol.model import Lease, NewJob, NoteKind
from leasemq.protocol.retry import Retry
from leasemq.protocol.signature import Signature
from leasemq.worker.importable import bare, found, is_task, learned_errors, learned_retry
from leasemq.worker.outcome import Arguments, judged, raised, read_arguments, returned
from leasemq.worker.pipe import (
    Ended,
    Frames,
    FromChild,
    Learn,
    Learned,
    NoteAnswer,
    NoteAsked,
    Run,
    ToChild,
    ended,
    framed,
)
from leasemq.worker.scopes import JobScope

ORPHANED = 70  # the exit code of a child whose worker is gone; nobody is left to read it
LAST_WORDS_S = 0.5  # for an idle child to end by itself, exit functions included
_PR_SET_PDEATHSIG = 1  # prctl(2)
_ANY_RETRY = Retry()  # of a job that brings its own policy: those have no rules by exception class


def main(number: int, worker: int, log: str) -> None:
    """Serve the worker with this process id over this file descriptor, until it closes its end."""
    print_as_told(log)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker, which drains
    _die_with(worker)
    end = socket.socket(fileno=number)
    end.set_inheritable(False)
    sys.argv = sys.argv[:1]
    _Life(end).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learned:
    """A function with what judges its ends."""

    call: Callable[..., Any]
    run: Callable[[Callable[[], Any]], Any]
    signature: Signature
    retry: Retry | None
    raises: DeclaredErrors
    told: Learn
    size_bytes: int  # of the address space at that time; only of interest where it is limited
    carried: Carried | None
    dependencies: Dependencies


class _Desk:
    """What a context writes through. Owner: one attempt; its function's threads may share it."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._guard = threading.Lock()
        self._is_over = False

    @property
    def is_told_to_stop(self) -> bool:
        """False while it runs: a function in a child is not asked to stop, its process is ended."""
        return self._is_over

    async def write(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Record something under the attempt's fence. Raises: LeaseLost."""
        note = NoteAsked(kind, value, queue, child)
        await asyncio.get_running_loop().run_in_executor(None, self._ask, note)

    def write_from_thread(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Like `write`; blocks until it is stored."""
        self._ask(NoteAsked(kind, value, queue, child))

    def transaction(self, session: object) -> NoReturn:
        """See `Ctx.transaction`."""
        raise errors.Unsupported(
            "a function in a child process cannot complete its job in a transaction: its lease is kept by "
            "the worker, in another process; run it in the loop, or with executor='thread'"
        )

    def transaction_in_thread(self, session: object) -> NoReturn:
        """See `Ctx.transaction_sync`."""
        self.transaction(session)

    def complete(self, value: object) -> NoReturn:
        """See `Ctx.complete`."""
        self.transaction(None)

    def end(self) -> None:
        """Refuse what comes after the function; a note under way is waited for."""
        with self._guard:
            self._is_over = True

    def _ask(self, note: NoteAsked) -> None:
        with self._guard:
            if self._is_over:
                raise errors.LeaseLost(f"the function has ended, so its {note.kind.value} was not recorded")
            self._line.say(note)
            answer = self._line.hear()
        if answer is None:
            os._exit(ORPHANED)
        if isinstance(answer, NoteAnswer) and answer.error is not None:
            raise _NOTE_ERRORS.get(answer.error, errors.LeaseMQError)(answer.text)


_NOTE_ERRORS: dict[str, type[errors.LeaseMQError]] = {
    one.__name__: one
    for one in (
        errors.LeaseLost,
        errors.BackendUnavailable,
        errors.BackendFull,
        errors.IndeterminateWrite,
        errors.PayloadTooLarge,
        errors.PayloadRejected,
        errors.Unsupported,
        errors.CorruptRecord,
    )
}


class _Line:
    """This end of the socket, in whole messages. Owner: the service; a desk borrows it during a run."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._frames = Frames(end, ToChild)
        self._heard: list[ToChild] = []

    def say(self, message: FromChild) -> None:
        """Send a message; a worker that is gone ends this process."""
        try:
            self._end.sendall(framed(message))
        except OSError:
            os._exit(ORPHANED)

    def hear(self) -> ToChild | None:
        """Wait for the next message; None: the worker has closed its end."""
        while not self._heard:
            try:
                heard = self._frames.read()
            except OSError:
                return None
            if heard is None:
                return None
            self._heard = heard
        return self._heard.pop(0)


@dataclass(slots=True)
class _Life:
    """The child's whole life. Owner: `main`."""

    end: socket.socket
    line: _Line = field(init=False)
    learned: dict[str, _Learned] = field(default_factory=dict)
    is_busy: bool = False

    def run(self) -> None:
        """Answer one message after another, until the worker has no more."""
        self.line = _Line(self.end)
        os.register_at_fork(after_in_child=self._hang_up)
        threading.Thread(target=self._watch, name="leasemq-worker-watch", daemon=True).start()
        while (message := self.line.hear()) is not None:
            self.is_busy = True
            match message:
                case Run():
                    self.line.say(copy_context().run(self._run, message))
                    _tidy()
                case Learn():
                    self.line.say(self._learn(message))
                case NoteAnswer():
                    raise AssertionError("an answer that nobody has asked for")
            self.is_busy = False

    def _hang_up(self) -> None:
        """In a process that a function forked: say nothing in the name of this one; trying to ends it."""
        number = self.end.detach()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, number, inheritable=False)
        os.close(nowhere)

    def _watch(self) -> None:
        """End this process when the worker's end of the socket closes, whatever the function is at."""
        hangup = select.poll()
        hangup.register(self.end, getattr(select, "POLLRDHUP", 0))
        hangup.poll()
        if not self.is_busy:  # the main thread sees it too, and ends in good order
            threading.Event().wait(LAST_WORDS_S)
        os._exit(ORPHANED)

    def _learn(self, told: Learn) -> Learned:
        try:
            self.learned[told.name] = _learned(told)
        except BaseException as error:  # the user's module runs while it is imported: it may raise anything
            return Learned(raised(error, None).error)
        return Learned(None)

    def _run(self, asked: Run) -> Ended:
        one = self.learned[asked.name]
        retry = _ANY_RETRY if asked.has_own_retry else one.retry
        lease, signature, running = asked.lease, one.signature, asked.running
        payload = asked.payload if lease is None else lease.payload
        arguments = read_arguments(signature, payload, retry, job=running.ref.id)
        if not isinstance(arguments, tuple):
            return ended(arguments)
        running_job.set(running.ref)
        running_attempt.set(running)
        happened: Happened
        try:
            if asked.headers and one.carried is not None:
                one.carried.restore(asked.headers, job=running.ref.id)
            if lease is None:
                value = one.run(partial(one.call, *arguments[0], **arguments[1]))
            else:
                value = self._run_with_context(one, lease, arguments)
        except BaseException as error:  # a function of the user's: whatever it raises ends its attempt alone
            happened = judged(error, retry, signature.secret_texts(*arguments), one.raises)
        else:
            happened = returned(signature, value, one.told.result_limit_bytes)
        return ended(happened, is_worn=_has_outgrown(one))

    def _run_with_context(self, one: _Learned, lease: Lease, arguments: Arguments) -> Any:
        desk = _Desk(self.line)
        scope = JobScope(one.dependencies, None)
        call = partial(one.call, Ctx(lease, desk, scope), *arguments[0], **arguments[1])
        within = _run_in_level if one.told.is_async else _run_in_scope
        try:
            return one.run(partial(within, scope, call))
        finally:
            desk.end()


def _learned(told: Learn) -> _Learned:
    thing = found(told.function, told.script)
    call = bare(thing)
    of_app = thing.routine() if is_task(thing) else None
    return _Learned(
        call=call,
        run=_runner(told),
        signature=Signature.of(call, task=told.name, skip_first=told.takes_context),
        retry=learned_retry(told),
        raises=learned_errors(told),
        told=told,
        size_bytes=0 if told.memory_limit_bytes is None else _size_bytes(),
        carried=None if of_app is None else of_app.carried,
        dependencies=NO_DEPENDENCIES if of_app is None else of_app.dependencies,
    )


def _run_in_scope(scope: JobScope, call: Callable[[], Any]) -> Any:
    return scope.run(call, _is_counted)


async def _run_in_level(scope: JobScope, call: Callable[[], Awaitable[Any]]) -> Any:
    async with scope.level():
        return await call()


def _is_counted() -> None:
    """Raise nothing: a child whose value no longer counts is not alive."""


def _has_outgrown(one: _Learned) -> bool:
    """Whether its jobs have left more behind than one may take: the next ones would suffer for it."""
    limit_bytes = one.told.memory_limit_bytes
    return limit_bytes is not None and _size_bytes() - one.size_bytes > limit_bytes


def _tidy() -> None:
    """Undo what a function may have left behind that would end its process later, or keep it from ending."""
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        if signal.getitimer(timer)[0]:
            signal.setitimer(timer, 0)
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(Exception):  # whatever the function has put in their place
        sys.stdout.flush()
        sys.stderr.flush()


def _runner(told: Learn) -> Callable[[Callable[[], Any]], Any]:
    """Answer what runs a call: in a loop of its own if it is async, within the limit if it has one."""
    run = _run_in_loop if told.is_async else _run_plainly
    return run if told.memory_limit_bytes is None else partial(_run_within, told.memory_limit_bytes, run)


def _run_plainly(call: Callable[[], Any]) -> Any:
    return call()


def _run_in_loop(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(call())


def _run_within(limit_bytes: int, run: Callable[[Callable[[], Any]], Any], call: Callable[[], Any]) -> Any:
    """Let the address space grow by no more than this while the function runs."""
    before, hardest = resource.getrlimit(resource.RLIMIT_AS)
    most = _size_bytes() + limit_bytes
    if hardest != resource.RLIM_INFINITY:
        most = min(most, hardest)
    resource.setrlimit(resource.RLIMIT_AS, (most, hardest))
    try:
        return run(call)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hardest))


def _size_bytes() -> int:
    """Answer the size of this process's address space: proc_pid_statm(5)."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()


def _die_with(worker: int) -> None:
    """Have the kernel kill this process when its worker dies, even while a function holds the GIL.

    The signal is tied to the thread that started this process, which lives until this process has ended.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != worker:  # it died before it was asked for
        os._exit(ORPHANED)
