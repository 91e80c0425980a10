"""Settle: end attempts under their fences. See `Work.settle`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leasemq.backends.sqlite.completing import complete_plain, retention
from leasemq.backends.sqlite.ending import delete, keep_results, let_go
from leasemq.backends.sqlite.rows import JobRow, jobs_by_id
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step, number_or_zero
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import REFUSED_LIMIT, TERMINAL, Outcome, Settled, Settlement, Side, State

_SETTLE = statement("settle")
_SETTLE_REASON = statement("settle_reason")
_SETTLED_BEFORE = statement("settled_before")
_VALUE_PUT = statement("value_put")
_REFUSE = statement("refuse")
_REFUSE_TRIM = statement("refuse_trim")

_TERMINAL = frozenset(state.value for state in TERMINAL)
_ACTIVE, _FAILED = State.ACTIVE.value, EventKind.FAILED.value


@dataclass(slots=True)
class _Writes:
    """What a batch of settlements writes, one list per statement. Owner: the step that settles."""

    jobs: list[tuple[object, ...]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    reasons: list[tuple[str, int]] = field(default_factory=list)
    values: list[tuple[int, str, bytes]] = field(default_factory=list)
    drops: list[JobRow] = field(default_factory=list)
    outliving: list[int] = field(default_factory=list)  # jobs dropped at once whose result is kept longer

    def note_failure(self, key: int, settlement: Settlement) -> None:
        """Add what an attempt failed with, and why the job did."""
        if settlement.error is not None:
            self.values.append((key, "error", settlement.error))
        if settlement.reason is not None:
            self.reasons.append((settlement.reason, key))

    def write(self, step: Step, book: Book) -> None:
        """Write it all, and move the books."""
        _SETTLE.many(step.connection, self.jobs)
        if self.reasons:
            _SETTLE_REASON.many(step.connection, self.reasons)
        if self.values:
            _VALUE_PUT.many(step.connection, self.values)
        for state, number in Counter(self.states).items():
            book.move(State.ACTIVE, state, number)
        for row in self.drops:
            book.move(row.state, None)
        keep_results(step, self.outliving)
        delete(step, book, self.drops)


def settle(step: Step, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
    """See `Work.settle`."""
    book = step.book(queue)
    if book is None:
        return (Settled.GONE,) * len(settlements)
    answers: list[Settled] = []
    for batch in _without_repeats(settlements):
        told = len(book.events)
        places = {one.job_id: place for place, one in enumerate(batch, book.place + 1)}
        done = complete_plain(step, book, batch, places)
        left = [one for one in batch if one.job_id not in done]
        answered = _settled_apart(step, book, left, places) if left else {}
        answers += [answered.get(one.job_id, Settled.APPLIED) for one in batch]
        if done or Settled.APPLIED in answered.values():
            book.take_places(len(batch))
        if done and left:  # these were written after the others, wherever they stand
            book.events[told:] = sorted(book.events[told:], key=lambda event: places[event[0]])
    return tuple(answers)


def _settled_apart(
    step: Step, book: Book, batch: Sequence[Settlement], places: Mapping[str, int]
) -> dict[str, Settled]:
    """Settle jobs, each once, by looking at each; answers by id."""
    answers: dict[str, Settled] = {}
    rows = jobs_by_id(step, book, [settlement.job_id for settlement in batch])
    writes = _Writes()
    for settlement in batch:
        row = rows.get(settlement.job_id)
        if row is None or row.generation != settlement.generation:
            answers[settlement.job_id] = Settled.GONE
            continue
        answer = answers[settlement.job_id] = _compared(step, book, row, settlement)
        if answer is Settled.APPLIED:
            _apply(step, book, row, settlement, places[settlement.job_id], writes)
    writes.write(step, book)
    return answers


def refuse(step: Step, book: Book, job: int, fence: int, write: str) -> None:
    """Note a stale write on the job, and count it: all that it changes."""
    book.refused += 1
    book.changed = True
    _REFUSE.run(step.connection, job, step.now_ms, fence, write)
    _REFUSE_TRIM.run(step.connection, job, REFUSED_LIMIT)


def _without_repeats(settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Split so that no batch has a job twice: the second settlement must see what the first did."""
    batch: dict[str, Settlement] = {}
    for settlement in settlements:
        if settlement.job_id in batch:
            yield list(batch.values())
            batch = {}
        batch[settlement.job_id] = settlement
    if batch:
        yield list(batch.values())


def _compared(step: Step, book: Book, row: JobRow, settlement: Settlement) -> Settled:
    """Compare in the order of the contract."""
    if _was_ended_by(step, row, settlement.id):
        return Settled.REPLAYED
    fence = settlement.fence
    if row.state != _ACTIVE or row.fence != fence.number or row.nonce != fence.nonce:
        if settlement.side is Side.HOLDER:
            refuse(step, book, row.key, fence.number, settlement.outcome.value)
        return Settled.LOST
    if settlement.side is Side.SWEEP and _is_ahead(row.lease_until_ms, step.now_ms):
        return Settled.HELD
    if row.cancel_requested and not settlement.seen_cancel:
        return Settled.CANCEL_REQUESTED
    return Settled.APPLIED


def _is_ahead(deadline_ms: int | None, now_ms: int) -> bool:
    """Whether a lease goes on; one whose deadline cannot be read is over, or it would never be."""
    return isinstance(deadline_ms, int) and deadline_ms > now_ms


def _was_ended_by(step: Step, row: JobRow, settlement_id: int) -> bool:
    if row.settled_by == settlement_id:
        return True
    has_history = number_or_zero(row.attempts) != 1 or row.replays != 0  # also when they cannot be read
    return has_history and _SETTLED_BEFORE.row(step.connection, row.key, settlement_id) is not None


def _apply(step: Step, book: Book, row: JobRow, settlement: Settlement, place: int, writes: _Writes) -> None:
    """Add what an accepted settlement writes, and move the books."""
    key, id_, generation, _, _, fence, nonce = row[:7]
    now, state, outcome = step.now_ms, settlement.state.value, settlement.outcome.value
    kind, due_ms, result = outcome, now + settlement.delay_ms, None
    ended_ms = keep_until_ms = result_until_ms = prune_ms = None
    is_end = state in _TERMINAL
    if is_end:
        due_ms, ended_ms, result = row.due_ms, now, settlement.result
        keep_until_ms, result_until_ms, prune_ms = retention(settlement, now)
    if outcome == Outcome.STALLED:
        book.stalls += 1
        kind = _FAILED if is_end else kind
    elif outcome == Outcome.RELEASED:
        book.releases += 1
    writes.note_failure(key, settlement)
    # Flags as 0 and 1: Python's module takes detours for every type but int, str and float.
    failed, suspect = int(settlement.error is not None), int(settlement.suspect)
    writes.jobs.append(
        (
            state,
            settlement.failures,
            settlement.stalls,
            suspect,
            due_ms,
            place,
            now,
            settlement.id,
            outcome,
            failed,
            ended_ms,
            keep_until_ms,
            result_until_ms,
            prune_ms,
            result,
            key,
            fence,
            nonce,
        )
    )
    writes.states.append(settlement.state)
    book.events.append((id_, generation, kind, state, number_or_zero(row.attempts)))
    if row.trail:
        book.trace(key, number_or_zero(row.trail), row.attempts, EventKind(kind), settlement.state)
    if is_end:
        _end(step, book, row, settlement, writes)


def _end(step: Step, book: Book, row: JobRow, settlement: Settlement, writes: _Writes) -> None:
    """See to what follows from the end of a job."""
    if row.frees_key or row.dependants:
        let_go(step, book, row, settlement.state)
    book.ended.append((row.id, row.generation))
    if not settlement.keep_ms:
        book.tell(row.ref(book), EventKind.REMOVED, None, row.attempts)
        writes.drops.append(row._replace(state=settlement.state))
        if settlement.result is not None and settlement.result_ms:
            writes.outliving.append(row.key)
