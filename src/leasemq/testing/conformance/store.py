"""One fresh store under a manual clock, and what its author may offer beside the contract."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from leasemq.backend import Backend
from leasemq.testing.manual_clock import ManualClock

OpenBackend = Callable[[], Backend]
PlantCorruption = Callable[[str, str], Awaitable[None]]  # (queue, id): make that record unreadable
CountStatements = Callable[[], int]  # statements, commands or scripts sent so far, by all views
FindOrphans = Callable[[], Sequence[str]]  # rows or keys that belong to no job, each in a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What a backend's author may offer beside the contract; None: it is not offered."""

    plant_corruption: Sequence[PlantCorruption] | None = None  # empty: nothing stored can be damaged
    count_statements: CountStatements | None = None
    find_orphans: FindOrphans | None = None


@dataclass(slots=True)
class Store:
    """A store that a test has to itself. Owns every backend object opened on it."""

    open_backend: OpenBackend
    clock: ManualClock
    opened: list[Backend] = field(default_factory=list)
    readable: bool = True  # a test that plants corruption says so, and the books are not read at its end

    async def open(self) -> Backend:
        """Open one more view of the store, as another process would; in memory it is the same object."""
        backend = self.open_backend()
        self.opened.append(backend)
        await backend.prepare()
        return backend

    async def close(self) -> None:
        """Close every view, newest first; closing twice is part of the contract."""
        for backend in reversed(self.opened):
            await backend.close()
        self.opened.clear()
