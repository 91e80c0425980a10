"""The backend as the test's own code sees it, through a wire; inline, a job has run when it is enqueued."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, cast

from leasemq.backend import Backend
from leasemq.context import running_job
from leasemq.errors import Refused
from leasemq.protocol.model import Enqueued, NewJob
from leasemq.testing.faults import FaultyBackend, Wire


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

    def listen(self, queues: Sequence[str]) -> NoReturn:
        """Refused: the wait would have no end."""
        raise Refused(
            "the job has not ended, and nothing runs it while this test waits: it is delayed, blocked, "
            "paused or to be retried; let time pass with advance(...), or resume its queue"
        )


def inline(backend: Backend, wire: Wire, run: Callable[[], Awaitable[object]]) -> Backend:
    """Answer the backend for a client whose jobs run at once."""
    return cast("Backend", InlineBackend(backend, wire, run))
