"""Hearing what other processes committed: one thread looks at the file's version, and reads when it moved.

`PRAGMA data_version` answers whether another connection has committed, for about 2 µs
(https://sqlite.org/pragma.html#pragma_data_version). What happened is then read from the events, which
every change of state writes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from leasemq.backends.sqlite.connection import opened
from leasemq.backends.sqlite.forking import AtWork
from leasemq.backends.sqlite.insight import unpacked
from leasemq.backends.sqlite.lane import started
from leasemq.backends.sqlite.listening import Audience, Seen
from leasemq.backends.sqlite.rows import JobRow, jobs_by_id
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Heard, Life, Step
from leasemq.backends.sqlite.writer import new_step
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import TERMINAL, Ref, State

_WATCH_QUEUE = statement("watch_queue")
_WATCH_CANCELS = statement("watch_cancels")
_EVENTS = statement("watch_events")

LOOK_SECONDS = 0.005
QUICK_LOOK_SECONDS = 0.000_5
_SLOWING = 1.02
_AFTER_FAULT_SECONDS = 0.25
_ROWS_PER_LOOK = 1_000  # further behind than this, it looks at the jobs instead of the events


class Pace:
    """How long to wait before the next look. Owner: the watch.

    Work that came after a while without any may be followed by more, and little else is done then: it looks
    often, and seldomer with each look in vain. Work that comes all the time is found many jobs at a look.
    """

    def __init__(self) -> None:
        self.seconds = LOOK_SECONDS
        self._vain_s = 0.0  # spent on looks in vain since work came last

    def looked(self, *, woken: bool) -> None:
        """Take in whether others had brought work."""
        if not woken:
            self._vain_s += self.seconds
            self.seconds = min(LOOK_SECONDS, self.seconds * _SLOWING)
            return
        self.seconds = QUICK_LOOK_SECONDS if self._vain_s >= LOOK_SECONDS else LOOK_SECONDS
        self._vain_s = 0.0


class Watch:
    """A thread that looks while somebody listens. Owner: the backend object."""

    def __init__(self, settings: Settings, audience: Audience) -> None:
        self._settings = settings
        self._audience = audience
        self._at_work = AtWork()
        self._stop = threading.Event()
        self._seen: dict[str, Seen] = {}
        self._has_missed = False  # since then, what was missed is found by looking at the jobs
        self._thread = threading.Thread(target=self._watch, name="leasemq-sqlite-watch", daemon=True)

    def start(self) -> None:
        """Begin to look. Raises: BackendUnavailable."""
        started(self._thread, self._settings.path)

    def stop(self) -> None:
        """Look no more; the thread ends by itself."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                with self._at_work:
                    connection = self._opened()
                try:
                    self._look_on(connection)
                finally:
                    with self._at_work:
                        connection.close()
            except Exception:  # whatever it is, nobody else would ever look again
                self._seen.clear()
                self._has_missed = True
                self._stop.wait(_AFTER_FAULT_SECONDS)

    def _opened(self) -> sqlite3.Connection:
        return opened(self._settings, "normal")

    def _look_on(self, connection: sqlite3.Connection) -> None:
        version, pace = -1, Pace()
        while not self._stop.is_set():
            with self._at_work:
                version, woken = self._look(connection, version)
            pace.looked(woken=woken)
            self._stop.wait(pace.seconds)

    def _look(self, connection: sqlite3.Connection, version: int) -> tuple[int, bool]:
        """Hear what there is to hear, if the file is no longer at that version.

        Answers its version now, and whether others had brought work.
        """
        newest: int = connection.execute("PRAGMA data_version").fetchone()[0]
        watched = self._watched()
        if newest == version and watched <= self._seen.keys():
            return newest, False
        return newest, self._read_queues(connection, watched)

    def _watched(self) -> frozenset[str]:
        return frozenset().union(*(listener.watched() for listener in self._audience.listeners))

    def _read_queues(self, connection: sqlite3.Connection, watched: frozenset[str]) -> bool:
        self._seen = {queue: seen for queue, seen in self._seen.items() if queue in watched}
        connection.execute("BEGIN")
        try:
            step = new_step(connection, self._settings)
            heard = [one for queue in watched if (one := self._heard(step, queue)) is not None]
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        self._audience.hear(heard)
        return any(one.woken for one in heard)

    def _heard(self, step: Step, queue: str) -> Heard | None:
        """Answer what happened in a queue since the last look."""
        row = _WATCH_QUEUE.row(step.connection, step.namespace, queue)
        if row is None:
            self._seen[queue] = Seen(0, 0)
            return None
        key, is_ready, resumes, event_number = row
        seen = self._seen.get(queue) or (None if self._has_missed else self._told_at_first(queue))
        self._seen[queue] = Seen(event_number, resumes)
        told = None if seen is None else self._told_by_events(step, queue, key, event_number, seen)
        if seen is None or told is None:
            marked = _WATCH_CANCELS.rows(step.connection, key)
            cancels = {Ref(queue=queue, id=id_, generation=life) for id_, life in marked}
            ended = _ended(step, queue, self._interest(queue))
            return _told(queue, is_ready > 0, cancels, ended, changed=True)
        return replace(told, woken=told.woken or resumes != seen.resumes)

    def _told_by_events(
        self, step: Step, queue: str, key: int, event_number: int, seen: Seen
    ) -> Heard | None:
        """Answer what the events after `seen` say, unless some are missing or cannot be read."""
        rows = _EVENTS.rows(step.connection, key, seen.event_number, _ROWS_PER_LOOK)
        if event_number > seen.event_number and _has_gap(rows, seen.event_number):
            return None
        try:
            return self._read(queue, rows)
        except CorruptRecord:
            return None

    def _told_at_first(self, queue: str) -> Seen | None:
        """Answer how far the queue was when the first of those who listen to it began to."""
        known = [listener.seen[queue] for listener in self._audience.listeners if queue in listener.seen]
        return min(known, key=lambda seen: seen.event_number, default=None)

    def _interest(self, queue: str) -> frozenset[Ref]:
        """Answer the jobs of a queue whose end somebody wants to hear of."""
        return frozenset().union(*(listener.interest_in(queue) for listener in self._audience.listeners))

    def _read(self, queue: str, rows: Sequence[Row]) -> Heard:
        """Answer what the events of others say."""
        has_interest = bool(self._interest(queue))
        woken, cancels, ended, changed = False, set[Ref](), list[Life](), False
        for _, last, entries in rows:
            if self._audience.has_heard(queue, last):
                continue
            changed = True
            for id_, life, kind, state, _ in unpacked(queue, entries):
                woken = woken or state in (State.WAITING, State.SCHEDULED)
                if kind == EventKind.CANCEL_REQUESTED:
                    cancels.add(Ref(queue=queue, id=id_, generation=life))
                elif has_interest and state in TERMINAL:
                    ended.append((id_, life))
        return _told(queue, woken, cancels, ended, changed=changed)


def seen_now(step: Step, queues: Sequence[str]) -> dict[str, Seen]:
    """Answer how far these queues are now."""
    rows = {queue: _WATCH_QUEUE.row(step.connection, step.namespace, queue) for queue in queues}
    return {queue: Seen(0, 0) if row is None else Seen(row[3], row[2]) for queue, row in rows.items()}


def _has_gap(rows: Sequence[Row], after: int) -> bool:
    """Whether events are missing, because they were trimmed or are too many for one look."""
    return not rows or rows[0][0] > after + 1 or len(rows) == _ROWS_PER_LOOK


def _told(
    queue: str, woken: bool, cancels: AbstractSet[Ref], ended: Sequence[Life], *, changed: bool
) -> Heard:
    return Heard(
        queue=queue,
        woken=woken,
        cancels=frozenset(cancels),
        ended=ended,
        event_number=0,
        changed=changed,
    )


def _ended(step: Step, queue: str, refs: AbstractSet[Ref]) -> list[Life]:
    """Answer which of these jobs have ended by now, or are gone. An id's later life says nothing of them."""
    book = step.book(queue)
    if book is None or not refs:
        return []
    rows = jobs_by_id(step, book, [ref.id for ref in refs])
    return [(ref.id, ref.generation) for ref in refs if _is_over(rows.get(ref.id), ref)]


def _is_over(row: JobRow | None, ref: Ref) -> bool:
    return row is None or (row.generation == ref.generation and row.state in TERMINAL)
