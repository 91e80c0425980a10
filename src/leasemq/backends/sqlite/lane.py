"""Requests and the thread that serves them.

Cancelling a caller does not take its request back. A lane is served by its own daemon thread, or, inline,
by whoever asks.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar, cast

from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.step import Heard, Step
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, CorruptRecord, LeaseMQError

T = TypeVar("T")
Work = Callable[[Step], T]
Hear = Callable[[Sequence[Heard]], None]

_OF_THE_CALLERS = UnicodeEncodeError  # what cannot be written down is a value that came with the request

GROUP_LIMIT = 256  # requests that share a commit


class Lane(Protocol):
    """Runs requests, one after the other."""

    async def run(self, work: Work[T], *, is_lasting: bool = True) -> T:
        """Run `work` in a transaction, and answer what it answers once that is durable.

        What is not lasting need not survive a power cut: it waits for no disk.
        """

    async def close(self) -> None:
        """Finish what was asked for, and close the connection. Repeatable."""


class Request(Generic[T]):
    """One request and whom to answer. Owner: the lane's thread, once it is put."""

    __slots__ = ("answer", "error", "future", "is_lasting", "loop", "until_ms", "work")

    def __init__(self, work: Work[T] | None, until_ms: int, *, is_lasting: bool = True) -> None:
        self.work = work  # None: close the lane
        self.until_ms = until_ms  # boot clock: how long it may wait for other processes
        self.is_lasting = is_lasting  # it is to survive a power cut
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.answer: T | None = None
        self.error: BaseException | None = None

    def run(self, step: Step) -> None:
        """Carry it out and keep the answer."""
        assert self.work is not None
        self.answer = carried_out(self.work, step)

    def deliver(self) -> None:
        """Answer the caller; to be called in its loop."""
        if self.future.done():
            return  # the caller was cancelled
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(cast(T, self.answer))


def carried_out(work: Work[T], step: Step) -> T:
    """Run `work`; what a value of another type than was stored leads to is told as what it is.

    Raises: CorruptRecord.
    """
    try:
        return work(step)
    except (ValueError, TypeError, struct.error) as error:
        if isinstance(error, LeaseMQError | _OF_THE_CALLERS):
            raise
        named = ", ".join(map(repr, step.queues)) or "none yet"
        raise CorruptRecord(
            f"a record that this request met cannot be read ({error!r:.200}); queues it looked at: {named}. "
            "Read their jobs to learn which one it is, and remove it"
        ) from error


class Crew(Protocol):
    """What a lane's thread does with the requests it finds."""

    def carry_out(self, group: Sequence[Request[object]]) -> None:
        """Give every request its answer or its error."""

    def close(self) -> None:
        """Close what is open."""


class ThreadLane:
    """A queue of requests and its daemon thread. Owner: the backend object."""

    def __init__(self, name: str, settings: Settings, crew: Crew) -> None:
        self._name = name
        self._settings = settings
        self._crew = crew
        self._requests: SimpleQueue[Request[object]] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def run(self, work: Work[T], *, is_lasting: bool = True) -> T:
        """See `Lane.run`. Raises: BackendUnavailable when too many requests wait already."""
        until_ms = boot_ms() + self._settings.busy_timeout_ms
        request = Request(work, until_ms, is_lasting=is_lasting)
        with self._guard:
            self._check()
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                started(thread, self._settings.path)
                self._thread = thread
            self._requests.put(cast(Request[object], request))
        return await request.future

    def _check(self) -> None:
        if self._is_closed:
            raise BackendUnavailable(f"the backend on {self._settings.path!r} is closed: prepare it again")
        if self._requests.qsize() >= self._settings.request_limit:
            raise BackendUnavailable(
                f"{self._settings.request_limit} requests wait for {self._settings.path!r} already: "
                "send larger batches, or raise request_limit"
            )

    async def close(self) -> None:
        """See `Lane.close`."""
        with self._guard:
            was_closed, self._is_closed = self._is_closed, True
            if was_closed or self._thread is None:
                return
            closing: Request[object] = Request(None, 0)
            self._requests.put(closing)
        await closing.future

    def _serve(self) -> None:
        while True:
            group = self._gathered()
            asked = [request for request in group if request.work is not None]
            if asked:
                self._carry_out(asked)
                answer(asked)
            if len(asked) < len(group):
                self._crew.close()
                answer([request for request in group if request.work is None])
                return

    def _carry_out(self, asked: Sequence[Request[object]]) -> None:
        try:
            self._crew.carry_out(asked)
        except Exception as error:  # a fault of ours: told to those who wait, and no end of the thread
            for request in asked:
                request.error = request.error or error

    def _gathered(self) -> list[Request[object]]:
        """Wait for a request, and take along what has gathered behind it."""
        group = [self._requests.get()]
        try:
            while len(group) < GROUP_LIMIT:
                group.append(self._requests.get_nowait())
        except Empty:
            pass
        return group


def started(thread: threading.Thread, path: str) -> None:
    """Start a thread. Raises: BackendUnavailable when the system gives none, which may pass."""
    try:
        thread.start()
    except RuntimeError as error:
        raise BackendUnavailable(
            f"no thread can be started for {path!r} ({error}): nothing was written; "
            "run fewer threads, or raise the limit on them, and try again"
        ) from error


def answer(requests: Sequence[Request[object]]) -> None:
    """Deliver the answers from another thread, with one call into each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Request[object]]] = {}
    for request in requests:
        loops.setdefault(request.loop, []).append(request)
    for loop, answered in loops.items():
        try:
            loop.call_soon_threadsafe(_deliver, answered)
        except RuntimeError:
            continue  # that loop is closed: nobody waits in it


def _deliver(requests: Iterable[Request[object]]) -> None:
    for request in requests:
        request.deliver()
