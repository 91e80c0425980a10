"""The backend as the test's own code sees it, through a wire; inline, a job has run when it is enqueued."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from leasemq.backend import Backend, Listener
from leasemq.context import running_job
from leasemq.errors import Refused
from leasemq.protocol.model import Enqueued, NewJob, Wake
from leasemq.testing.faults import FaultyBackend, FaultyListener, Wire

HEARING_MS = 200  # real time for whoever runs the jobs of other callers at this moment


class InlineBackend(FaultyBackend):
    """Runs what was enqueued before it answers. Owner: one event loop's connection."""

    def __init__(self, backend: Backend, wire: Wire, run: Callable[[], Awaitable[object]]) -> None:
        super().__init__(backend, wire)
        self._run = run
        self._send = super().__getattr__("enqueue")

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Work.enqueue`. A job that a running job enqueues runs after it."""
        stored = cast("Sequence[Enqueued]", await self._send(queue, jobs))
        if running_job.get() is None:
            await self._run()
        return stored

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[Listener]:
        """See `Backend.listen`."""
        async with self._backend.listen(queues) as listener:
            yield cast("Listener", InlineListener(listener, self.wire))


class InlineListener(FaultyListener):
    """Refuses to wait for a job that nobody runs: what has ended was read before it is asked."""

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`. Raises: Refused if nothing ends."""
        wake = await super().wait(min(timeout_ms, HEARING_MS))
        if not wake.ended and not wake.changed:
            raise Refused(
                "the job has not ended, and nothing runs it while this test waits: it is delayed, blocked, "
                "paused or to be retried; let time pass with advance(...), or resume its queue"
            )
        return wake


def inline(backend: Backend, wire: Wire, run: Callable[[], Awaitable[object]]) -> Backend:
    """Answer the backend for a client whose jobs run at once."""
    return cast("Backend", InlineBackend(backend, wire, run))
