"""What one process has open on a store: a writer, a reader, an audience and its watch, or one lane inline."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress

from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.inline import InlineLane
from leasemq.backends.sqlite.lane import Lane, ThreadLane
from leasemq.backends.sqlite.listening import Audience, SqliteListener
from leasemq.backends.sqlite.reader import Snapshots
from leasemq.backends.sqlite.renewing import SqliteRenewer
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.watching import Seen, Watch, baselines
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
        self._audience = Audience(opened=self._start_watch, emptied=self._stop_watch)
        self._inline: InlineLane | None = None
        if inline:
            self._inline = InlineLane(settings, self._audience.hear)
            self.writer: Lane = self._inline
            self.reader: Lane = self._inline
        else:
            crew = GroupCommit(settings, self._audience.hear)
            self.writer = ThreadLane("leasemq-sqlite-writer", settings, crew)
            self.reader = ThreadLane("leasemq-sqlite-reader", settings, Snapshots(settings))

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[SqliteListener]:
        """See `Work.listen`."""
        return self._audience.listen(queues)

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
        self._stop_watch()
        await self.writer.close()
        await self.reader.close()

    async def _start_watch(self, queues: Sequence[str]) -> None:
        """See to it that what other processes commit from now on is heard."""
        if self._inline is not None:
            return
        now: dict[str, Seen] = {}
        with suppress(BackendUnavailable):  # the watch tries on, and looks at the jobs when it gets through
            now = await self.reader.run(lambda step: baselines(step, queues))
        with self._guard:
            if self._watch is None:
                self._watch = Watch(self._settings, self._audience)
                self._watch.start()
            self._watch.expect(now)

    def _stop_watch(self) -> None:
        with self._guard:
            if self._watch is not None:
                self._watch.stop()
            self._watch = None
