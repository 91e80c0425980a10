"""Requests run by whoever asks: no threads, for virtual time, twins and explorers. It blocks the loop."""

from __future__ import annotations

from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.lane import Hear, T, Work
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.writer import run_at_once
from leasemq.errors import BackendUnavailable


class InlineLane:
    """One connection for reads, writes and renewals. Owner: the backend object, in one thread."""

    def __init__(self, settings: Settings, hear: Hear) -> None:
        self._settings = settings
        self._hear = hear
        self._connection = WritingConnection(settings, settings.sync)
        self._is_closed = False

    async def run(self, work: Work[T], *, is_lasting: bool = True) -> T:
        """See `Lane.run`."""
        return self.run_now(work)

    def run_now(self, work: Work[T]) -> T:
        """Run it at once."""
        if self._is_closed:
            raise BackendUnavailable(f"the backend on {self._settings.path!r} is closed: prepare it again")
        return run_at_once(self._connection, self._settings, work, self._hear)

    async def close(self) -> None:
        """See `Lane.close`."""
        self._is_closed = True
        self._connection.close()
