"""Whole records of jobs, read a page at a time. See `Insight.get` and `Insight.find`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, get_args, get_type_hints

from leasemq.backends.sqlite.rows import corrupt, json_array, keep
from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Step
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import Attempt, JobRecord, RefusedWrite
from leasemq.protocol.model import (
    HISTORY_LIMIT,
    OnParentFailure,
    Outcome,
    Parent,
    Ref,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)

_RECORDS = statement("records")
_VALUES = statement("record_values")
_ATTEMPTS = statement("record_attempts")
_REFUSED = statement("record_refused")
_LOG = statement("record_log")
_PARENTS = statement("record_parents")


class _Job(NamedTuple):
    """The columns of records.sql, with the types that they are checked against."""

    key: int
    id: str
    generation: int
    state: str
    priority: int
    created_ms: int
    due_ms: int
    expires_ms: int | None
    attempts: int
    failures: int
    stalls: int
    suspect: int
    cancel_requested: int
    fence: int
    lease_until_ms: int | None
    ended_ms: int | None
    keep_until_ms: int | None
    result_until_ms: int | None
    reason: str | None
    replays: int
    worker: str
    incarnation: str
    claimed_ms: int
    renewed_ms: int
    attempt_replay: int
    attempt_ended_ms: int | None
    attempt_outcome: str | None
    attempt_failed: int
    result: bytes | None
    task: str
    payload: bytes
    overrides: bytes
    headers: bytes
    max_stalls: int
    keep_result_ms: int
    keep_record_ms: int
    keep_dead_ms: int
    unique_key: str | None
    unique_mode: str | None
    unique_until: str | None
    unique_window_ms: int | None
    creator_queue: str | None
    creator_id: str | None
    creator_generation: int | None
    trail: int
    born: int


_CHECKS = tuple((name, frozenset(get_args(kind) or (kind,))) for name, kind in get_type_hints(_Job).items())
_COUNTERS = ("attempts", "failures", "stalls", "replays", "max_stalls", "trail")


def records(step: Step, queue: str, keys: Sequence[int]) -> dict[int, JobRecord | CorruptRecord]:
    """Read the records under these keys, newest accepted first; one that cannot be read is its error."""
    listed = json_array(keys)
    hanging = _Hanging(step, listed)
    found: dict[int, JobRecord | CorruptRecord] = {}
    for row in _RECORDS.rows(step.connection, listed):
        try:
            found[row[0]] = _record(step, queue, _shaped(queue, row), hanging)
        except CorruptRecord as error:
            found[row[0]] = error
        except (ValueError, TypeError) as error:
            found[row[0]] = corrupt(queue, str(row[1]), str(error))
    return found


def _shaped(queue: str, row: Row) -> _Job:
    for (name, kinds), value in zip(_CHECKS, row, strict=True):
        if type(value) not in kinds:
            raise corrupt(queue, str(row[1]), f"{name} is {value!r:.60}")
    job = _Job._make(row)
    for name in _COUNTERS:
        if getattr(job, name) < 0:
            raise corrupt(queue, job.id, f"{name} is {getattr(job, name)}")
    return job


class _Hanging:
    """What hangs on the jobs of one page, by key. Owner: the call that reads the page."""

    def __init__(self, step: Step, listed: str) -> None:
        connection = step.connection
        self.values: dict[tuple[int, str], object] = {
            (job, kind): value for job, kind, value in _VALUES.rows(connection, listed)
        }
        self.attempts = _grouped(_ATTEMPTS.rows(connection, listed))
        self.refused = _grouped(_REFUSED.rows(connection, listed))
        self.log = _grouped(_LOG.rows(connection, listed))
        self.parents = _grouped(_PARENTS.rows(connection, listed))

    def value(self, job: int, kind: str) -> bytes | None:
        """Answer a value of a job. Raises: TypeError."""
        value = self.values.get((job, kind))
        return None if value is None else _blob(value)


def _grouped(rows: Sequence[Row]) -> dict[int, list[Row]]:
    grouped: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row[0]].append(row)
    return grouped


def _record(step: Step, queue: str, job: _Job, hanging: _Hanging) -> JobRecord:
    key = job.key
    refused = hanging.refused.get(key, ())
    is_kept = job.result_until_ms is None or job.result_until_ms > step.now_ms
    return JobRecord(
        ref=Ref(queue=queue, id=job.id, generation=job.generation),
        task=job.task,
        payload=job.payload,
        state=State(job.state),
        priority=job.priority,
        created_ms=job.created_ms,
        due_ms=job.due_ms,
        expires_ms=job.expires_ms,
        attempts=job.attempts,
        failures=job.failures,
        stalls=job.stalls,
        max_stalls=job.max_stalls,
        suspect=job.suspect != 0,
        cancel_requested=job.cancel_requested != 0,
        fence=job.fence,
        lease_until_ms=job.lease_until_ms,
        ended_ms=job.ended_ms,
        keep_until_ms=job.keep_until_ms,
        result=job.result if is_kept else None,
        result_until_ms=job.result_until_ms,
        error=hanging.value(key, "error"),
        reason=job.reason,
        progress=hanging.value(key, "progress"),
        checkpoint=hanging.value(key, "checkpoint"),
        keep=keep(job.keep_result_ms, job.keep_record_ms, job.keep_dead_ms),
        unique=_unique(job),
        open_parents=tuple(_parent(row) for row in hanging.parents.get(key, ())),
        creator=_creator(job),
        replays=job.replays,
        overrides=job.overrides,
        headers=job.headers,
        history=_history(job, hanging),
        refused=tuple(RefusedWrite(at_ms=row[1], fence=row[2], write=row[3]) for row in refused),
        refused_count=refused[-1][4] if refused else 0,
        log=tuple(_blob(row[1]) for row in hanging.log.get(key, ())),
        trail=job.trail,
        born=str(job.born),
    )


def _history(job: _Job, hanging: _Hanging) -> tuple[Attempt, ...]:
    """The kept attempts, and the newest one, which lives in the job's own row."""
    history = [_attempt(row) for row in hanging.attempts.get(job.key, ())]
    if job.attempts > 0:
        outcome = job.attempt_outcome
        history.append(
            Attempt(
                number=job.attempts,
                worker=job.worker,
                incarnation=job.incarnation,
                fence=job.fence,
                claimed_ms=job.claimed_ms,
                renewed_ms=job.renewed_ms,
                ended_ms=job.attempt_ended_ms,
                outcome=None if outcome is None else Outcome(outcome),
                error=hanging.value(job.key, "error") if job.attempt_failed else None,
                replay=job.attempt_replay != 0,
            )
        )
    return tuple(history[-HISTORY_LIMIT:])


def _attempt(row: Row) -> Attempt:
    return Attempt(
        number=row[1],
        worker=row[2],
        incarnation=row[3],
        fence=row[4],
        claimed_ms=row[5],
        renewed_ms=row[6],
        ended_ms=row[7],
        outcome=None if row[8] is None else Outcome(row[8]),
        error=None if row[9] is None else _blob(row[9]),
        replay=row[10] != 0,
    )


def _unique(job: _Job) -> Unique | None:
    if job.unique_key is None:
        return None
    return Unique(
        key=job.unique_key,
        mode=UniqueMode(job.unique_mode or ""),
        until=UniqueUntil(job.unique_until or ""),
        window_ms=job.unique_window_ms,
    )


def _creator(job: _Job) -> Ref | None:
    if job.creator_queue is None or job.creator_id is None or job.creator_generation is None:
        return None
    return Ref(queue=job.creator_queue, id=job.creator_id, generation=job.creator_generation)


def _parent(row: Row) -> Parent:
    return Parent(queue=row[1], id=row[2], on_failure=OnParentFailure(row[3]))


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"a stored value is {value!r:.60}, not bytes")
    return value
