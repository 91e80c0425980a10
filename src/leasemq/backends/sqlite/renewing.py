"""Renewal: synchronous, for the keeper's thread. See `leasemq.backend.Renewer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasemq.backends.sqlite.lane import Work
from leasemq.backends.sqlite.rows import jobs_by_id
from leasemq.backends.sqlite.settling import refuse
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.model import Fence, Renewal

_RENEW = statement("renew")

Renewals = Sequence[Renewal]


class SqliteRenewer:
    """See `leasemq.backend.Renewer`. Owner: the keeper's thread."""

    def __init__(self, run: Callable[[Work[Renewals]], Renewals], close: Callable[[], None]) -> None:
        self._run = run
        self._close = close

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Renewals:
        """See `Renewer.renew`."""
        return self._run(lambda step: renew(step, queue, held, lease_ms))

    def close(self) -> None:
        """See `Renewer.close`."""
        self._close()


def renew(step: Step, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Renewals:
    """Push the deadlines of those that are held; note the stale writes of the others."""
    book = step.book(queue)
    if book is None:
        return (Renewal.LOST,) * len(held)
    return _renewed(step, book, held, step.now_ms + lease_ms)


def _renewed(step: Step, book: Book, held: Sequence[tuple[str, Fence]], lease_until_ms: int) -> Renewals:
    rows = jobs_by_id(step, book, [job_id for job_id, _ in held])
    answers: list[Renewal] = []
    for job_id, fence in held:
        row = rows.get(job_id)
        values = (lease_until_ms, step.now_ms, None if row is None else row.key, fence.number, fence.nonce)
        if row is not None and _RENEW.run(step.connection, *values) == 1:
            answers.append(Renewal.CANCEL_REQUESTED if row.cancel_requested else Renewal.HELD)
            continue
        if row is not None:
            refuse(step, book, row.key, fence.number, "renew")
        answers.append(Renewal.LOST)
    return tuple(answers)
