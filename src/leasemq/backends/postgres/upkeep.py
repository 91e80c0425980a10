"""Vacuuming of the tables through which every job passes.

A row that moves on leaves a dead one behind, and a claim reads over it until it is vacuumed. The server's
own autovacuum looks once a minute, in which a busy queue leaves a million. So the processes that make them
do it, one at a time: what is locked is passed over, and no file is cut (that would lock out everybody).
https://www.postgresql.org/docs/current/sql-vacuum.html
"""

from __future__ import annotations

import asyncio

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.routine import Routine
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite

MOVED_AT_LEAST = 10_000  # dead rows of this process that are worth a pass at once
MOVED_AT_PRUNE = 500  # and at a sweep
EVERY_MS = 3_000  # for all processes together
PAUSE_MS = 60_000  # of this process after one that failed: what takes long is not begun again and again
_HOT = ("ready", "active", "scheduled", "tally")
_TURN = "vacuum"


class Upkeep:
    """Counts what this process moved, and vacuums when it is worth it. Owner: the backend object.

    Its task is born outside a TaskGroup: nobody waits for it but `close`.
    """

    def __init__(self, executor: Executor, *, every_ms: int = EVERY_MS, pause_ms: int = PAUSE_MS) -> None:
        self._executor = executor
        self._every_ms = every_ms
        self._pause_ms = pause_ms
        self._not_before_ms = 0
        self._moved = 0
        self._vacuuming: asyncio.Task[None] | None = None
        schema = executor.settings.quoted_schema
        tables = ", ".join(f"{schema}.{table}" for table in _HOT)
        self._routine = Routine(
            name="vacuum",
            qualified="",
            parameters=(),
            is_read=True,  # it changes nothing that anybody asked for
            text=f"VACUUM (SKIP_LOCKED, TRUNCATE OFF) {tables}",
        )

    def moved(self, count: int) -> None:
        """Note that so many jobs went from one table to another."""
        self._moved += count
        if self._moved >= MOVED_AT_LEAST:
            self._begin()

    def pruned(self) -> None:
        """Note that a sweep came by."""
        if self._moved >= MOVED_AT_PRUNE:
            self._begin()

    async def close(self) -> None:
        """Let what is under way come to its end."""
        if self._vacuuming is not None:
            await asyncio.wait({self._vacuuming})

    def _begin(self) -> None:
        if self._vacuuming is None and boot_ms() >= self._not_before_ms:
            self._moved = 0
            self._vacuuming = asyncio.get_running_loop().create_task(self._vacuum())
            self._vacuuming.add_done_callback(self._ended)

    def _ended(self, vacuuming: asyncio.Task[None]) -> None:
        self._vacuuming = None
        if not vacuuming.cancelled():
            vacuuming.result()  # a defect of ours goes to the loop's own handler

    async def _vacuum(self) -> None:
        try:
            if await self._executor.call("take_turn", _TURN, self._every_ms):
                await self._executor.run(self._routine)
        except (BackendUnavailable, IndeterminateWrite):
            self._not_before_ms = boot_ms() + self._pause_ms
