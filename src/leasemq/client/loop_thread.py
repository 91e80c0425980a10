"""One event loop in a thread of its own, for callers that have none: Django, Flask, scripts."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from leasemq.errors import BackendUnavailable, IndeterminateWrite, SyncInsideLoop

_CLOSE_WITHIN_S = 5.0  # at exit; a backend that does not answer must not keep the process

T = TypeVar("T")
Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a call came to: a value, because an exit that is raised in a task ends the loop for everybody."""

    value: Any
    leaving: SystemExit | KeyboardInterrupt | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Running:
    """The thread that runs, its loop, and what ends it. Owned by LoopThread."""

    thread: threading.Thread
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    calls: set[Future[_Answer]] = field(default_factory=set)
    is_over: bool = False  # nobody will answer any more

    def end(self) -> None:
        """Tell everybody who still waits."""
        self.is_over = True
        for call in list(self.calls):
            call.cancel()


class LoopThread:
    """Runs coroutines for threads without a loop. Owner: the process; any thread may call.

    The thread starts with the first call and ends at exit, after whoever used it has closed. A signal's
    handler may call in the middle of another call, so the lock may be taken again by its holder.
    """

    def __init__(self) -> None:
        self._starting = threading.RLock()
        self._running: _Running | None = None
        self._closers: dict[int, Closer] = {}

    @property
    def is_running(self) -> bool:
        """Whether the thread has been started and not been closed."""
        return self._running is not None

    def call(self, work: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
        """Run the coroutine that `work` makes, and answer its result or raise its error.

        Raises: SyncInsideLoop if the calling thread has a running loop; `instead` says what to await.
            BackendUnavailable if the interpreter is ending, IndeterminateWrite if the loop ends meanwhile.
        """
        refuse_inside_loop(instead)
        running = self._started()
        answering = _answer(work())
        try:
            call = asyncio.run_coroutine_threadsafe(answering, running.loop)
        except RuntimeError as error:  # its loop was closed at this moment
            answering.close()
            raise BackendUnavailable(
                f"the loop for synchronous calls ended before {instead} was sent"
            ) from error
        answer = self._awaited(call, running, instead)
        if answer.leaving is not None:
            raise answer.leaving
        return cast("T", answer.value)

    def _awaited(self, call: Future[_Answer], running: _Running, instead: str) -> _Answer:
        ended = threading.Event()
        call.add_done_callback(lambda _: ended.set())
        running.calls.add(call)
        try:
            if not running.is_over:  # else nobody may have been told of the call
                ended.wait()
        finally:
            running.calls.discard(call)
            call.cancel()  # an interrupted caller leaves; what is already sent is not undone
        if call.cancelled():
            raise IndeterminateWrite(
                f"{instead} was cancelled before it was answered, by itself or with the loop for synchronous "
                "calls, which ends at exit; it may or may not have taken effect"
            )
        return call.result()

    def at_close(self, key: int, closer: Closer) -> None:
        """Await `closer` before the thread ends, if its loop is the running one; one per key."""
        if self._is_here:
            self._closers[key] = closer

    def forget(self, key: int) -> None:
        """Drop the closer of what was closed in this thread's loop; another loop's changes nothing."""
        if self._is_here:
            self._closers.pop(key, None)

    @property
    def _is_here(self) -> bool:
        running = self._running
        return running is not None and running.loop is asyncio.get_running_loop()

    def close(self) -> None:
        """End the thread, closing what it served; bounded in time, and the next call starts another."""
        with self._starting:
            running, self._running = self._running, None
        if running is not None:
            _stop(running)
            running.thread.join(_CLOSE_WITHIN_S)

    def _started(self) -> _Running:
        running = self._running
        if running is not None and not running.is_over:
            return running
        with self._starting:
            if self._running is None or self._running.is_over:
                started = self._start()
                if self._running is None or self._running.is_over:
                    self._running = started
                else:  # a signal's handler was faster
                    _stop(started)
            return self._running

    def _start(self) -> _Running:
        ready: Future[_Running] = Future()
        thread = threading.Thread(target=lambda: self._run(ready), name="leasemq-sync", daemon=True)
        with explained_at_exit():
            thread.start()
        return ready.result()

    def _run(self, ready: Future[_Running]) -> None:
        try:
            asyncio.run(self._serve(ready))
        finally:
            ready.result().end()

    async def _serve(self, ready: Future[_Running]) -> None:
        stop = asyncio.Event()
        ready.set_result(
            _Running(thread=threading.current_thread(), loop=asyncio.get_running_loop(), stop=stop)
        )
        await stop.wait()
        closers, self._closers = list(self._closers.values()), {}
        with contextlib.suppress(TimeoutError, BackendUnavailable):
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                for closer in closers:
                    await closer()


async def _answer(work: Awaitable[Any]) -> _Answer:
    try:
        return _Answer(await work)
    except (SystemExit, KeyboardInterrupt) as leaving:
        return _Answer(None, leaving)


def _stop(running: _Running) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended by itself
        running.loop.call_soon_threadsafe(running.stop.set)


@contextmanager
def explained_at_exit() -> Iterator[None]:
    """Say why nothing can be started any more: Python refuses threads once the main one has ended.

    Raises: BackendUnavailable in place of RuntimeError, once that is so.
    """
    try:
        yield
    except RuntimeError as error:
        if threading.main_thread().is_alive() and not sys.is_finalizing():
            raise
        raise BackendUnavailable(
            f"the interpreter is ending, so nothing can be opened any more ({error}); "
            "wait for your threads before the main thread ends, or open the app before it does"
        ) from error


def refuse_inside_loop(instead: str) -> None:
    """Raise SyncInsideLoop if an event loop runs in the calling thread; `instead` says what to await."""
    if has_running_loop():
        raise SyncInsideLoop(
            f"a synchronous call inside a running event loop would block it; await {instead} instead"
        )


def has_running_loop() -> bool:
    """Whether an event loop runs in the calling thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass(slots=True)
class _Process:
    """What this process has. Owner: this module."""

    here: LoopThread = field(default_factory=LoopThread)
    of_the_parent: list[LoopThread] = field(default_factory=list)  # collecting a copied loop closes its files


_process = _Process()


def loop_thread() -> LoopThread:
    """Answer the process's loop thread."""
    return _process.here


def _forget_parent() -> None:
    """Start anew in a forked child: the thread was not copied, and a lock may have been copied held."""
    _process.of_the_parent.append(_process.here)
    _process.here = LoopThread()


def _close() -> None:
    _process.here.close()


os.register_at_fork(after_in_child=_forget_parent)
atexit.register(_close)
