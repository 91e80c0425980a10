"""Where the functions of one worker run that do not run in its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import Context
from functools import cached_property

from leasemq.carried import context_without
from leasemq.worker.processes import Processes
from leasemq.worker.routine import Routine
from leasemq.worker.threads import Threads


class Executors:
    """The threads and the child processes of one worker. Owner: its slots, in its loop.

    Args:
        stopping: set when the worker was told to stop.
        routines: what is to run.
    """

    def __init__(self, stopping: asyncio.Event, routines: Iterable[Routine]) -> None:
        self._stopping = stopping
        carried = [one.carried.variables for one in routines if one.carried is not None]
        self._context = context_without(variable for variables in carried for variable in variables)
        self.threads = Threads("leasemq-job")

    @cached_property
    def processes(self) -> Processes:
        """The child processes; none is started before the first job that needs one."""
        return Processes(self._stopping)

    def context(self) -> Context:
        """Answer the context of one attempt: without what only its own job can bring."""
        return self._context.copy()

    async def close(self) -> None:
        """Let the threads end after what they are at, and end the child processes."""
        self.threads.close()
        if "processes" in vars(self):
            await self.processes.close()
