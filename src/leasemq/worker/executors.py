"""Where the functions of one worker run that do not run in its loop."""

from __future__ import annotations

import asyncio
from functools import cached_property

from leasemq.worker.processes import Processes
from leasemq.worker.threads import Threads


class Executors:
    """The threads and the child processes of one worker. Owner: its slots, in its loop.

    Args:
        stopping: set when the worker was told to stop.
    """

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self.threads = Threads("leasemq-job")

    @cached_property
    def processes(self) -> Processes:
        """The child processes; none is started before the first job that needs one."""
        return Processes(self._stopping)

    async def close(self) -> None:
        """Let the threads end after what they are at, and end the child processes."""
        self.threads.close()
        if "processes" in vars(self):
            await self.processes.close()
