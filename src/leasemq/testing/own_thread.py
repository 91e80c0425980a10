"""A thread with a patient loop of its own, in which a test has its worker run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from leasemq.testing.patient_loop import PatientLoop

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


@dataclass(slots=True, eq=False)
class _Call(Generic[T]):
    """What a test waits for. Owned by the caller; the thread notes the task that it became."""

    future: Future[T]
    task: asyncio.Task[Any] | None = None

    def interrupt(self) -> None:
        """End what a test no longer waits for."""
        if not (self.future.cancel() or self.future.done()) and self.task is not None:
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)


class OwnThread:
    """Runs one coroutine after the other; between two of them its loop stands still. Owner: a harness."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="leasemq-testing")
        self._runner = asyncio.Runner(loop_factory=PatientLoop)

    async def run(self, work: Work[T]) -> T:
        """Answer what the coroutine comes to."""
        call = self._begun(work)
        try:
            return await asyncio.wrap_future(call.future)
        finally:
            call.interrupt()

    def run_sync(self, work: Work[T]) -> T:
        """The same, for a caller without an event loop."""
        call = self._begun(work)
        try:
            return call.future.result()
        finally:
            call.interrupt()

    def close(self) -> None:
        """Close the loop and end the thread."""
        with self._pool:
            self._pool.submit(self._runner.close).result()

    def _begun(self, work: Work[T]) -> _Call[T]:
        call: _Call[T]

        async def noted() -> T:
            call.task = asyncio.current_task()
            return await work()

        is_known: Future[None] = Future()

        def run() -> T:
            is_known.result()
            return self._runner.run(noted())

        call = _Call(self._pool.submit(run))
        is_known.set_result(None)
        return call
