"""The end that nearly every attempt has, written without reading its job first. See `settling.settle`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leasemq.backends.sqlite.rows import json_array
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.model import Outcome, Settlement, Side, State

_SETTLE_PLAIN = statement("settle_plain")
_PLACED_SINCE = statement("placed_since")

_COMPLETED = State.COMPLETED.value


def complete_plain(
    step: Step, book: Book, batch: Sequence[Settlement], places: Mapping[str, int]
) -> frozenset[str]:
    """Write the plain completions among these settlements, no two of one job; answers whose were applied.

    The statement applies none but what the long way would, and that one is left to say why it did not.
    """
    plain = [one for one in batch if _is_plain(one)]
    if not plain:
        return frozenset()
    number = _SETTLE_PLAIN.many(step.connection, [_row(step, book, one, places[one.job_id]) for one in plain])
    if number == 0:
        return frozenset()
    applied = frozenset(one.job_id for one in plain)
    if number != len(plain):  # or unknown, where the caller's driver does not tell
        found = _PLACED_SINCE.rows(step.connection, book.key, json_array(applied), book.place)
        applied = frozenset(row[0] for row in found)
        plain = [one for one in plain if one.job_id in applied]
    lives = [(one.job_id, one.generation) for one in plain]
    book.events += [(id_, life, _COMPLETED, _COMPLETED, 1) for id_, life in lives]
    book.ended += lives
    book.move(State.ACTIVE, State.COMPLETED, len(plain))
    return applied


def _is_plain(one: Settlement) -> bool:
    """Whether nothing but the job can make this more than one row's change."""
    return (
        one.outcome is Outcome.COMPLETED
        and one.state is State.COMPLETED
        and one.failures == one.stalls == 0
        and one.side is Side.HOLDER
        and not one.suspect
        and one.error is None
        and one.reason is None
        and bool(one.keep_ms)
    )


def _row(step: Step, book: Book, one: Settlement, place: int) -> tuple[object, ...]:
    now, fence = step.now_ms, one.fence
    keep_until_ms, result_until_ms, prune_ms = retention(one, now)
    return (
        *(place, now, one.id, keep_until_ms, result_until_ms, prune_ms, one.result),
        *(book.key, one.job_id, one.generation, fence.number, fence.nonce),
    )


def retention(settlement: Settlement, now: int) -> tuple[int, int | None, int]:
    """Answer until when an ended job's record and its result are kept, and when the first of them goes."""
    keep_until_ms = now + (settlement.keep_ms or 0)
    if settlement.result_ms is None:
        return keep_until_ms, None, keep_until_ms
    result_until_ms = now + settlement.result_ms
    prune_ms = keep_until_ms if settlement.result is None else min(keep_until_ms, result_until_ms)
    return keep_until_ms, result_until_ms, prune_ms
