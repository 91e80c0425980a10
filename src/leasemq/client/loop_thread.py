"""One event loop in a thread of its own, for callers that have none: Django, Flask, scripts."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasemq.errors import BackendUnavailable, SyncInsideLoop

_CLOSE_WITHIN_S = 5.0  # at exit; a backend that does not answer must not keep the process

T = TypeVar("T")
Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """The thread that runs, its loop, and what ends it. Owned by LoopThread."""

    thread: threading.Thread
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


class LoopThread:
    """Runs coroutines for threads without a loop. Owner: the process; any thread may call.

    The thread starts with the first call and ends at exit, after whoever used it has closed.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._running: _Running | None = None
        self._closers: dict[int, Closer] = {}

    @property
    def is_running(self) -> bool:
        """Whether the thread has been started and not been closed."""
        return self._running is not None

    def call(self, work: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
        """Run the coroutine that `work` makes, and answer its result or raise its error.

        Raises: SyncInsideLoop if the calling thread has a running loop; `instead` says what to await.
        """
        refuse_inside_loop(instead)
        future = asyncio.run_coroutine_threadsafe(work(), self._started().loop)
        try:
            return future.result()
        finally:
            future.cancel()  # an interrupted caller leaves; what is already sent is not undone

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
            running.loop.call_soon_threadsafe(running.stop.set)
            running.thread.join(_CLOSE_WITHIN_S)

    def _started(self) -> _Running:
        with self._starting:
            if self._running is None:
                ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
                thread = threading.Thread(
                    target=lambda: asyncio.run(self._serve(ready)), name="leasemq-sync", daemon=True
                )
                thread.start()
                loop, stop = ready.result()
                self._running = _Running(thread=thread, loop=loop, stop=stop)
            return self._running

    async def _serve(self, ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
        stop = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        closers, self._closers = list(self._closers.values()), {}
        with contextlib.suppress(TimeoutError, BackendUnavailable):
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                for closer in closers:
                    await closer()


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
