"""Daemon threads for functions that block: own ones, so that a stuck function never holds up the exit.

Completions are collected in bursts: however many threads end while the loop is busy, it is woken once.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from leasemq.worker.forks import end_if_forked

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Done:
    """What a call came to: values, because a future cannot carry every exception (StopIteration)."""

    value: Any
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _Order:
    call: Call
    context: contextvars.Context
    future: asyncio.Future[Done]


class Threads:
    """Runs calls in threads that it starts as needed and keeps. Owner: one worker, in its loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._done: deque[tuple[_Order, Done]] = deque()
        self._is_loop_woken = False
        self._threads = 0
        self._busy = 0

    def start(self, call: Call) -> asyncio.Future[Done]:
        """Run the call in a thread, in a copy of the caller's context variables."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done] = loop.create_future()
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        self._orders.put(_Order(call, contextvars.copy_context(), future))
        return future

    def close(self) -> None:
        """Let the threads end after what they are at; none is waited for."""
        for _ in range(self._threads):
            self._orders.put(None)
        self._threads = 0

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        pid = os.getpid()
        while (order := self._orders.get()) is not None:
            done = _outcome(order)
            end_if_forked(pid)
            self._done.append((order, done))
            del order, done  # an idle thread keeps no argument of its last call alive
            if not self._is_loop_woken:
                self._is_loop_woken = True
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        # First the flag, then the results: one that is added in between wakes the loop again.
        self._is_loop_woken = False
        while self._done:
            order, done = self._done.popleft()
            self._busy -= 1
            if not order.future.done():
                order.future.set_result(done)


def _outcome(order: _Order) -> Done:
    try:
        return Done(order.context.run(order.call), None)
    except BaseException as error:  # a function of the user's: whatever it raises is its outcome
        return Done(None, error)


async def in_own_thread(call: Callable[[], None], stop: Callable[[], None], name: str) -> None:
    """Run a chore in a daemon thread of its own until it ends or the caller is cancelled.

    What it raises is raised here, so that a supervised task stands for the thread.
    """
    threads = Threads(name)
    chore = threads.start(call)
    try:
        done = await chore
    finally:
        stop()
        threads.close()
    if done.error is not None:
        raise done.error
