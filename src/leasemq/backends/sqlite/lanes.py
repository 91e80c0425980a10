"""What one process has open on a store: a writer, a reader, an audience and its watch, or one lane inline."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.inline import InlineLane
from leasemq.backends.sqlite.lane import Lane, ThreadLane
from leasemq.backends.sqlite.listening import Audience, Seen, SqliteListener
from leasemq.backends.sqlite.reader import Snapshots
from leasemq.backends.sqlite.renewing import SqliteRenewer
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.transacting import Transactions
from leasemq.backends.sqlite.watching import Watch, seen_now
from leasemq.backends.sqlite.writer import GroupCommit, run_at_once
from leasemq.errors import BackendUnavailable


class Lanes:
    """The lanes of one process. Owner: the backend object; a forked child gets its own."""

    def __init__(self, settings: Settings, *, inline: bool) -> None:
        self.pid = os.getpid()
        self.is_closed = False
        self._settings = settings
        self._guard = threading.Lock()
        self._watch: Watch | None = None
        self._audience = Audience(changed=self._see_to_watch)
        self._inline: InlineLane | None = None
        if inline:
            self._inline = InlineLane(settings, self._audience.hear)
            self.writer: Lane = self._inline
            self.reader: Lane = self._inline
        else:
            crew = GroupCommit(settings, self._audience.hear)
            self.writer = ThreadLane("leasemq-sqlite-writer", settings, crew)
            self.reader = ThreadLane("leasemq-sqlite-reader", settings, Snapshots(settings))
        self.transactions = Transactions(settings, self._audience.hear, inline=inline)

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[SqliteListener]:
        """See `Work.listen`."""
        seen: dict[str, Seen] = {}
        if self._inline is None:
            with suppress(BackendUnavailable):  # the watch will get through, and look at the jobs then
                seen = await self.reader.run(lambda step: seen_now(step, queues))
        with self._audience.listen(queues, seen) as listener:
            yield listener

    def renewer(self) -> SqliteRenewer:
        """See `Work.renewer`. A renewal need not survive a power cut, so it waits for no disk."""
        inline = self._inline
        if inline is not None:
            return SqliteRenewer(inline.run_now, lambda: None)
        connection = WritingConnection(self._settings, "normal")
        hear = self._audience.hear
        return SqliteRenewer(
            lambda work: run_at_once(connection, self._settings, work, hear, first=True), connection.close
        )

    async def close(self) -> None:
        """Finish what is under way and close everything. Repeatable."""
        self.is_closed = True
        self._see_to_watch()
        await self.writer.close()
        await self.reader.close()
        await self.transactions.close()

    def _see_to_watch(self) -> None:
        """Watch the file while somebody listens, and no longer."""
        with self._guard:
            is_wanted = bool(self._audience.listeners) and self._inline is None and not self.is_closed
            if is_wanted and self._watch is None:
                watch = Watch(self._settings, self._audience)
                watch.start()
                self._watch = watch
            elif not is_wanted and self._watch is not None:
                self._watch.stop()
                self._watch = None
