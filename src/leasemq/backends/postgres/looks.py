"""Behind a transaction pooler nobody can be notified: whether something happened is looked at instead.

One read for all who listen in a loop, twice a second, while somebody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.telling import Told, everything
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Ref

LOOK_MS = 500


class _Watching(Protocol):
    """Those who listen in this loop."""

    @property
    def is_anybody_there(self) -> bool:
        """Whether somebody listens."""

    @property
    def queues(self) -> frozenset[str]:
        """The queues that somebody works on."""

    @property
    def followed(self) -> frozenset[str]:
        """The queues whose events somebody wants to hear of."""

    @property
    def wanted(self) -> frozenset[Ref]:
        """The jobs whose ends somebody wants to hear of."""


class Looks:
    """Owner: one loop's audience. Its task is born outside a TaskGroup: it lives while somebody listens."""

    def __init__(self, executor: Executor, tell: Callable[[Told], None], watching: _Watching) -> None:
        self._executor = executor
        self._tell = tell
        self._watching = watching
        self._seen: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Return when nothing that happens from now on is missed. Raises: BackendUnavailable."""
        await self._look()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
            self._looking.add_done_callback(self._stopped)

    async def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def drop(self) -> None:
        """Nothing is open."""

    def _stopped(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled():
            looking.result()  # a defect of ours goes to the loop's own handler

    async def _look_on(self) -> None:
        while self._watching.is_anybody_there:
            await asyncio.sleep(LOOK_MS / 1_000)
            try:
                await self._look()
            except (BackendUnavailable, IndeterminateWrite):
                continue  # the numbers seen before the outage tell afterwards what happened in it

    async def _look(self) -> None:
        """Tell of every queue in which something happened since the last look."""
        queues = self._queues()
        if not queues:
            return
        ((numbers,),) = await self._executor.call("newest_events", queues)
        for queue, number in zip(queues, numbers, strict=True):
            before, self._seen[queue] = self._seen.get(queue), number
            if number != before:
                self._tell(everything(queue))

    def _queues(self) -> list[str]:
        watching = self._watching
        return sorted(watching.queues | watching.followed | {ref.queue for ref in watching.wanted})
