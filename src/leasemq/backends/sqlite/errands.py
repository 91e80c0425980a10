"""A thread for single calls that block, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from leasemq.backends.sqlite.lane import started

T = TypeVar("T")


class Errands:
    """Runs calls in one daemon thread. Owner: the transactions of one store, in one process.

    Cancelling a caller does not take its call back: what is asked for next comes after it.
    """

    def __init__(self, name: str, path: str) -> None:
        self._name = name
        self._path = path
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run(self, call: Callable[[], T]) -> T:
        """Answer what the call answers, or raise what it raises. Raises: BackendUnavailable."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[T] = loop.create_future()

        def carry_out() -> None:
            value: Any = None
            fault: BaseException | None = None
            try:
                value = call()
            except Exception as error:  # whatever it is, it is the caller's: the thread must go on
                fault = error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_answer, answered, value, fault)

        with self._guard:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                started(thread, self._path)
                self._thread = thread
            self._asked.put(carry_out)
        return await answered

    def close(self) -> None:
        """Let the thread end after what was asked for; a later call starts another."""
        with self._guard:
            if self._thread is not None:
                self._asked.put(None)
                self._thread = None

    def _serve(self) -> None:
        while (errand := self._asked.get()) is not None:
            errand()


def _answer(answered: asyncio.Future[Any], value: object, fault: BaseException | None) -> None:
    if answered.done():
        return  # its caller was cancelled
    if fault is not None:
        answered.set_exception(fault)
    else:
        answered.set_result(value)
