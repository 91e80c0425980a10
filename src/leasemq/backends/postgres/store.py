"""What an operation's module needs of its backend: to call, and what goes along with every call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.wire import Row

T = TypeVar("T")


class Caller(Protocol):
    """Calls functions: the executor, or one session that a caller's transaction is open on."""

    async def call(self, name: str, *values: object) -> list[Row]:
        """See `Executor.call`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One schema, and the way to it."""

    settings: Settings
    executor: Caller

    @property
    def now_ms(self) -> int | None:
        """The clock of a test; None: the server reads its own."""
        clock = self.settings.clock
        return None if clock is None else clock()

    @property
    def channel(self) -> str | None:
        """Where listeners are notified; None: nobody is."""
        return self.settings.channel if self.settings.notify else None

    async def call(self, name: str, *values: object) -> list[Row]:
        """See `Executor.call`."""
        return await self.executor.call(name, *values)


def packed(values: list[T]) -> list[T] | None:
    """Answer a column of a batch as the functions take it: one value for all, one each, or None."""
    first = values[0]
    if values.count(first) < len(values):
        return values
    return None if first is None else [first]
