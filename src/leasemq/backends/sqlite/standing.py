"""How a job stands in its queue. See `leasemq.backend.Insight`."""

from __future__ import annotations

from leasemq.backends.sqlite.records import records
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Ref, State
from leasemq.protocol.standing import AHEAD_LIMIT, ALONE_LIMIT, Standing

_KEYS = statement("standing_keys")
_AHEAD = statement("standing_ahead")
_ALONE = statement("standing_alone")
_SUSPECT_WAITS = statement("suspect_waits")
_HOLD_READ = statement("hold_read")


def standing(step: Step, queue: str, job_id: str) -> Standing | None:
    """See `Insight.standing`. Raises: CorruptRecord."""
    book = step.book(queue)
    found = None if book is None else _KEYS.row(step.connection, book.key, job_id)
    if book is None or found is None or found[:2] == (None, None):
        return None
    own, into, into_id, into_generation = found
    key = into if own is None else own
    record = records(step, queue, [key])[key]
    if isinstance(record, CorruptRecord):
        raise record
    waits = record.state is State.WAITING
    return Standing(
        now_ms=step.now_ms,
        record=record,
        merged_into=None if into is None else Ref(queue=queue, id=into_id, generation=into_generation),
        paused=book.paused,
        ahead=_AHEAD.rows(step.connection, key, step.now_ms, AHEAD_LIMIT)[0][0] if waits else 0,
        suspect_waits=_SUSPECT_WAITS.row(step.connection, book.key, step.now_ms) is not None,
        reserved_for=book.suspect_incarnation,
        reserved_until_ms=book.suspect_until_ms,
        alone=tuple(row[0] for row in _ALONE.rows(step.connection, book.key, ALONE_LIMIT)),
        key_holder=_key_holder(step, book, record),
    )


def _key_holder(step: Step, book: Book, record: JobRecord) -> Ref | None:
    if record.unique is None:
        return None
    held = _HOLD_READ.row(step.connection, book.key, record.unique.key, step.now_ms)
    return None if held is None else Ref(queue=book.name, id=held[0], generation=held[1])
