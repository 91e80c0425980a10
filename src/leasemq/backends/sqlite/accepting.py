"""Enqueue: store jobs, or answer what stands for them already. See `Work.enqueue`."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.backends.sqlite.ending import FREES_AT_END, FREES_AT_START, FREES_NEVER, drop, end, keep_results
from leasemq.backends.sqlite.rows import JobRow, jobs_by_id, json_array, stored_state
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.checks import check_new_jobs
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import (
    NOT_STARTED,
    Acceptance,
    Enqueued,
    FollowUp,
    FollowUpKind,
    NewJob,
    Parent,
    Ref,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)
from leasemq.protocol.times import debounced_ms

_KNOWN = statement("enqueue_known")
_SAME = statement("enqueue_same")
_NEWEST_KEY = statement("newest_key")
_SLIP_NEWEST = statement("slip_newest")
_JOB = statement("enqueue")
_BODY = statement("enqueue_body")
_TERMS = statement("enqueue_terms")
_PARENT = statement("enqueue_parent")
_HOLD_READ = statement("hold_read")
_HOLD_PUT = statement("hold_put")
_OVERDUE_ONE = statement("overdue_one")
_MERGE = statement("merge")
_MERGE_ALIAS = statement("merge_alias")
_MERGE_FORGET = statement("merge_forget")
_CREATED = statement("created")
_SET_DUE = statement("set_due")
_SET_DUE_BLOCKED = statement("set_due_blocked")


def enqueue(step: Step, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """See `Work.enqueue`."""
    check_new_jobs(queue, jobs)
    if not jobs:
        return ()
    intake = _Intake(step, step.open_book(queue), jobs)
    answers = tuple(intake.accept(job) for job in jobs)
    intake.flush()
    return answers


def held_key(step: Step, book: Book, unique_key: str) -> Ref | None:
    """Answer who holds a unique key now."""
    row = _HOLD_READ.row(step.connection, book.key, unique_key, step.now_ms)
    return None if row is None else Ref(queue=book.name, id=row[0], generation=row[1])


def take_key(step: Step, book: Book, ref: Ref, unique: Unique) -> None:
    """Give a free key to a job. A debounce's window is its quiet time, not a bound of the key."""
    has_bound = unique.window_ms is not None and unique.mode is not UniqueMode.DEBOUNCE
    until_ms = step.now_ms + unique.window_ms if has_bound and unique.window_ms is not None else None
    _HOLD_PUT.run(step.connection, book.key, unique.key, ref.id, ref.generation, until_ms)


def attach_to_parents(book: Book, ref: Ref, parents: Sequence[Parent]) -> None:
    """Have each parent told, through the outbox, that this job waits for it."""
    for parent in parents:
        book.outbox.append(
            FollowUp(
                id=book.next_follow_up(),
                kind=FollowUpKind.ATTACH,
                child=ref,
                parent=Ref(queue=parent.queue, id=parent.id, generation=0),
                on_failure=parent.on_failure,
            )
        )


class _Intake:
    """One batch of requests. Owner: the step; it keeps plain inserts back to write them in one go."""

    def __init__(self, step: Step, book: Book, jobs: Sequence[NewJob]) -> None:
        self._step = step
        self._book = book
        listed = json_array([job.id for job in jobs])
        rows = _KNOWN.rows(step.connection, book.key, listed)
        self._known = {row[0]: JobRow._make(row[1:]) for row in rows}
        found = _NEWEST_KEY.row(step.connection, book.key)
        assert found is not None
        # An id whose record is gone goes on after the life whose result is still kept.
        self._slips: dict[str, int] = (
            dict(_SLIP_NEWEST.rows(step.connection, book.key, listed)) if found[1] else {}
        )
        # Never a key that this queue gave before, though its job is gone: cursors compare them.
        book.newest_key = max(found[0], book.newest_key)
        self._created: set[str] = set()  # by this batch, and not read back yet
        self._jobs: list[tuple[object, ...]] = []
        self._bodies: list[tuple[object, ...]] = []
        self._terms: list[tuple[object, ...]] = []

    def accept(self, job: NewJob) -> Enqueued:
        """Answer one request, and store what it asks for if nothing stands for it."""
        if job.id in self._created:
            self._read_back(job.id)
        known = own = self._known.get(job.id)
        if known is not None and not _gives_way(known, job):
            return self._existing(job, known)
        is_merged = known is not None and known.id != job.id
        if is_merged:  # a record of its own, from before it was merged, must give way too
            self.flush()
            own = jobs_by_id(self._step, self._book, [job.id]).get(job.id)
            if own is not None and not _gives_way(own, job):
                return self._existing(job, own)
        if job.unique is not None:
            holder = self._live_holder(job.unique.key)
            if holder is not None:
                return self._merged(job, job.unique, holder)
        if is_merged:
            _MERGE_FORGET.run(self._step.connection, self._book.key, job.id)
        if own is None:
            return self._create(job, self._slips.get(job.id, 0) + 1, 0)
        self._forget(own)
        return self._create(job, own.generation + 1, own.fence)

    def _live_holder(self, unique_key: str) -> Ref | None:
        """Answer who holds a key; a holder past its ttl would never start, so it expires in this step."""
        step, book = self._step, self._book
        holder = held_key(step, book, unique_key)
        if holder is None:
            return None
        self.flush()
        found = _OVERDUE_ONE.row(step.connection, book.key, holder.id, holder.generation, step.now_ms)
        if found is None:
            return holder
        row = JobRow._make(found)
        end(step, book, row, State.EXPIRED)
        self._look_again(row.key)
        return held_key(step, book, unique_key)

    def _look_again(self, key: int) -> None:
        """Read anew what the ids stand for that stood for this job."""
        ids = json_array([id_ for id_, known in self._known.items() if known.key == key])
        self._known = {id_: known for id_, known in self._known.items() if known.key != key}
        rows = _KNOWN.rows(self._step.connection, self._book.key, ids)
        self._known |= {row[0]: JobRow._make(row[1:]) for row in rows}

    def _read_back(self, job_id: str) -> None:
        """An id twice in one batch: the second meets what the first stored."""
        self.flush()
        self._created.remove(job_id)
        self._known |= jobs_by_id(self._step, self._book, [job_id])

    def flush(self) -> None:
        """Write the inserts that were kept back."""
        if self._jobs:
            _JOB.many(self._step.connection, self._jobs)
            _BODY.many(self._step.connection, self._bodies)
            _TERMS.many(self._step.connection, self._terms)
            self._jobs, self._bodies, self._terms = [], [], []

    def _existing(self, job: NewJob, known: JobRow) -> Enqueued:
        self.flush()
        found = _SAME.row(self._step.connection, known.key, job.task, job.payload)
        return Enqueued(
            ref=known.ref(self._book),
            acceptance=Acceptance.EXISTING,
            state=stored_state(self._book, known),
            same_payload=found is not None and found[0] == 1,
        )

    def _forget(self, row: JobRow) -> None:
        """Delete the record that a new generation replaces, and with it the ids merged into it."""
        self.flush()
        if row.state == State.COMPLETED:
            keep_results(self._step, [row.key])
        drop(self._step, self._book, [row])
        named = [id_ for id_, known in self._known.items() if known.key == row.key]
        for id_ in named:
            del self._known[id_]
        self._known |= jobs_by_id(self._step, self._book, named)  # merged ones stand for themselves again

    def _create(self, job: NewJob, generation: int, last_fence: int) -> Enqueued:
        step, book = self._step, self._book
        book.newest_key += 1
        now, key = step.now_ms, book.newest_key
        due_ms = max(now, now + job.delay_ms if job.due_at_ms is None else job.due_at_ms)
        state = _first_state(has_parents=bool(job.parents), due_ms=due_ms, now_ms=now)
        expires_ms = None if job.ttl_ms is None else now + job.ttl_ms
        frees_key = _frees_key(job.unique)
        place = book.next_place()
        self._jobs.append(
            (
                *(key, book.key, job.id, generation, state.value, job.priority, place, now, due_ms),
                *(expires_ms, last_fence, frees_key, job.request, job.trail),
            )
        )
        self._bodies.append(_body(key, job, book.event_number + len(book.events)))
        if job.ttl_ms is not None or job.unique is not None or job.creator is not None:
            self._terms.append(_terms(key, job))
        ref = Ref(queue=book.name, id=job.id, generation=generation)
        if job.unique is not None:
            take_key(step, book, ref, job.unique)
        if job.parents:
            self._attach(key, ref, job.parents)
        book.move(None, state)
        book.tell(ref, EventKind.ENQUEUED, state, 0)
        if job.trail:
            book.trace(key, job.trail, 0, EventKind.ENQUEUED, state)
        self._created.add(job.id)
        return Enqueued(ref=ref, acceptance=Acceptance.CREATED, state=state)

    def _attach(self, key: int, ref: Ref, parents: Sequence[Parent]) -> None:
        """Store the open parents, and have each of them told."""
        attach_to_parents(self._book, ref, parents)
        by_name = {(parent.queue, parent.id): parent.on_failure.value for parent in parents}
        rows = [(key, number, *name, policy) for number, (name, policy) in enumerate(by_name.items())]
        _PARENT.many(self._step.connection, rows)

    def _merged(self, job: NewJob, unique: Unique, holder: Ref) -> Enqueued:
        """Answer a request whose key is held, by the mode that it asks for."""
        self.flush()
        row = jobs_by_id(self._step, self._book, [holder.id]).get(holder.id)
        if row is None or row.generation != holder.generation:
            return Enqueued(ref=holder, acceptance=Acceptance.SKIPPED, state=None)
        state = stored_state(self._book, row)
        takes_payload = unique.mode in (UniqueMode.REPLACE, UniqueMode.DEBOUNCE)
        if not takes_payload or state not in NOT_STARTED or row.attempts > 0:
            return Enqueued(ref=holder, acceptance=Acceptance.SKIPPED, state=state)
        connection = self._step.connection
        values = (job.task, job.payload, job.overrides, job.headers)
        if not _MERGE.run(connection, row.key, unique.key, *values):
            # A throttled key may outlive its holder, whose id is then another job's, which never had the key.
            return Enqueued(ref=holder, acceptance=Acceptance.SKIPPED, state=state)
        _MERGE_ALIAS.run(connection, self._book.key, job.id, row.key)
        acceptance = Acceptance.REPLACED
        if unique.mode is UniqueMode.DEBOUNCE:
            acceptance = Acceptance.DEBOUNCED
            row = self._debounced(row, state, self._due_ms(row, job, unique))
        state = stored_state(self._book, row)
        row.tell(self._book, EventKind.REPLACED, state)
        self._known[job.id] = row
        self._known = {id_: row if known.key == row.key else known for id_, known in self._known.items()}
        return Enqueued(ref=holder, acceptance=acceptance, state=state)

    def _due_ms(self, row: JobRow, job: NewJob, unique: Unique) -> int:
        now_ms, window_ms = self._step.now_ms, unique.window_ms or 0
        if job.at_most_ms is None:
            return now_ms + window_ms
        found = _CREATED.row(self._step.connection, row.key)
        created_ms = now_ms if found is None or type(found[0]) is not int else found[0]
        return debounced_ms(now_ms, window_ms, created_ms, job.at_most_ms)

    def _debounced(self, row: JobRow, state: State, due_ms: int) -> JobRow:
        """Make the holder due at `due_ms`; answers its row as it is now."""
        step, book = self._step, self._book
        if state is State.BLOCKED:
            _SET_DUE_BLOCKED.run(step.connection, due_ms, row.key)
            return row._replace(due_ms=due_ms)
        after = _first_state(has_parents=False, due_ms=due_ms, now_ms=step.now_ms)
        _SET_DUE.run(step.connection, after.value, due_ms, book.next_place(), step.now_ms, row.key)
        book.move(state, after)
        return row._replace(due_ms=due_ms, state=after)


def _gives_way(row: JobRow, job: NewJob) -> bool:
    """Whether the request may replace this record, which is not its own from an earlier try."""
    return row.state in job.reuse and not (row.request == job.request != 0)


def _first_state(*, has_parents: bool, due_ms: int, now_ms: int) -> State:
    if has_parents:
        return State.BLOCKED
    return State.SCHEDULED if due_ms > now_ms else State.WAITING


def _frees_key(unique: Unique | None) -> int:
    if unique is None or unique.mode is UniqueMode.THROTTLE:
        return FREES_NEVER
    return FREES_AT_START if unique.until is UniqueUntil.START else FREES_AT_END


def _body(key: int, job: NewJob, born: int) -> tuple[object, ...]:
    keep = job.keep
    ages_ms = (keep.result_ms, keep.record_ms, keep.dead_ms)
    return (key, job.task, job.payload, job.overrides, job.headers, job.max_stalls, *ages_ms, born)


def _terms(key: int, job: NewJob) -> tuple[object, ...]:
    unique, creator = job.unique, job.creator
    return (
        key,
        job.ttl_ms,
        *(_NO_UNIQUE if unique is None else (unique.key, unique.mode, unique.until, unique.window_ms)),
        *(_NO_CREATOR if creator is None else (creator.queue, creator.id, creator.generation)),
    )


_NO_UNIQUE = (None, None, None, None)
_NO_CREATOR = (None, None, None)
