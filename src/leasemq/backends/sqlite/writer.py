"""Group commit: requests that gathered while the last commit was under way share one transaction.

Each has a savepoint of its own, so that one that fails takes no other along, and all are answered after
the COMMIT. When the transaction as a whole fails, nothing of it happened, and each of them is told so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.faults import is_busy, is_of_the_file, translated
from leasemq.backends.sqlite.lane import Hear, Request, T, Work, carried_out
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.step import Heard, Step
from leasemq.clock import boot_ms


class GroupCommit:
    """The writing crew. Owner: the writer's thread."""

    def __init__(self, settings: Settings, hear: Hear) -> None:
        self._settings = settings
        self._hear = hear
        self._connection = WritingConnection(settings, settings.sync)

    def carry_out(self, group: Sequence[Request[object]]) -> None:
        """See `Crew.carry_out`."""
        left = list(group)
        while left:
            left = self._transaction(left)

    def close(self) -> None:
        """See `Crew.close`."""
        self._connection.close()

    def _transaction(self, group: list[Request[object]]) -> list[Request[object]]:
        """Carry out as many as one transaction takes; answers those that are left for the next."""
        try:
            self._connection.begin(
                min(request.until_ms for request in group),
                is_lasting=any(request.is_lasting for request in group),
            )
        except sqlite3.Error as error:
            return self._refused(group, error)
        tried: list[Request[object]] = []
        try:
            with self._connection.at_work:
                heard = self._run_all(group, tried)
        except sqlite3.Error as error:  # the transaction is lost, and with it what those before had done
            self._fail(tried, error)
            return group[len(tried) :]
        try:
            self._connection.commit()
        except sqlite3.Error as error:
            self._fail(group, error, committing=True)
            return []
        self._hear(heard)
        return []

    def _refused(self, group: list[Request[object]], error: sqlite3.Error) -> list[Request[object]]:
        """Fail those who have waited long enough for the lock, or all if it is the file that is at fault."""
        now = boot_ms()
        late = [request for request in group if not is_busy(error) or request.until_ms <= now]
        self._fail(late, error, keep_open=is_busy(error))
        return [request for request in group if request.error is None]

    def _run_all(self, group: list[Request[object]], tried: list[Request[object]]) -> list[Heard]:
        heard: list[Heard] = []
        for request in group:
            tried.append(request)
            heard.extend(self._run_one(request, is_alone=len(group) == 1))
        return heard

    def _run_one(self, request: Request[object], *, is_alone: bool) -> Sequence[Heard]:
        """Run one request in its savepoint; raises only when the whole transaction is lost."""
        raw = self._connection.raw
        if not is_alone:
            raw.execute("SAVEPOINT request")
        step = new_step(raw, self._settings)
        try:
            request.run(step)
            heard = step.finish()
        except Exception as error:  # whatever it is, it is the caller's: the thread must go on
            if isinstance(error, sqlite3.Error) and (not raw.in_transaction or is_of_the_file(error)):
                raise
            request.error = told(error, self._settings.path)
            raw.execute("ROLLBACK" if is_alone else "ROLLBACK TO request")
            heard = []
        if not is_alone:
            raw.execute("RELEASE request")
        return heard

    def _fail(
        self,
        requests: Sequence[Request[object]],
        error: sqlite3.Error,
        *,
        committing: bool = False,
        keep_open: bool = False,
    ) -> None:
        """Tell every caller that has not been told no already, and start afresh with the file."""
        for request in requests:
            request.error = request.error or told(error, self._settings.path, committing=committing)
        self._connection.give_up(keep_open=keep_open)


def new_step(connection: sqlite3.Connection, settings: Settings) -> Step:
    """Start a step in the open transaction; its time is now."""
    return Step(
        connection,
        namespace=settings.namespace,
        now_ms=settings.clock(),
        event_limit=settings.event_limit,
    )


def told(error: Exception, path: str, *, committing: bool = False) -> Exception:
    """Answer what the caller is to see for an error: never a driver's own."""
    if isinstance(error, sqlite3.Error):
        answer = translated(error, path, committing=committing)
        answer.__cause__ = error
        return answer
    return error


def run_at_once(
    connection: WritingConnection, settings: Settings, work: Work[T], hear: Hear, *, first: bool = False
) -> T:
    """Run one request in the calling thread, in a transaction of its own."""
    is_committing = is_done = False
    try:
        connection.begin(boot_ms() + settings.busy_timeout_ms, first=first)
        with connection.at_work:
            step = new_step(connection.raw, settings)
            answer = carried_out(work, step)
            heard = step.finish()
        is_committing = True
        connection.commit()
        is_done = True
    except sqlite3.Error as error:
        raise translated(error, settings.path, committing=is_committing) from error
    finally:
        if not is_done:
            connection.give_up()
    hear(heard)
    return answer
