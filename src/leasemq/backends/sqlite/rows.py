"""Rows as values, and what is wrong with those that cannot be: never read as missing or empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import msgspec

from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Book, Step, number_or_zero
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import Fence, Keep, Lease, Ref, State

_JOBS_BY_ID = statement("jobs_by_id")
_JOBS_BY_KEY = statement("jobs_by_key")

_encoded = msgspec.json.Encoder().encode


def json_array(values: Iterable[int | str | tuple[str, int]]) -> str:
    """Answer the values as the JSON array that a statement joins with."""
    return _encoded(list(values)).decode()


class JobRow(NamedTuple):
    """What a change of state is decided from. `state` is the text as stored."""

    key: int
    id: str
    generation: int
    state: str
    attempts: int
    fence: int
    nonce: str
    lease_until_ms: int | None
    cancel_requested: int
    settled_by: int | None
    replays: int
    due_ms: int
    frees_key: int
    dependants: int
    request: int
    trail: int  # entries of its own trail to keep
    noted: int  # the number of the newest attempt's last note

    def ref(self, book: Book) -> Ref:
        """Answer the life of the id that this row is."""
        return Ref(queue=book.name, id=self.id, generation=self.generation)

    def tell(self, book: Book, kind: EventKind, state: State, attempt: int | None = None) -> None:
        """Add one event of the job, and an entry to its trail if it keeps one."""
        attempt = self.attempts if attempt is None else attempt
        book.tell(self.ref(book), kind, state, attempt)
        if self.trail:
            book.trace(self.key, number_or_zero(self.trail), attempt, kind, state)


def jobs_by_id(step: Step, book: Book, ids: Sequence[str]) -> dict[str, JobRow]:
    """Read the jobs that there are among these ids."""
    rows = _JOBS_BY_ID.rows(step.connection, book.key, json_array(ids))
    return {row[1]: JobRow._make(row) for row in rows}


def jobs_by_key(step: Step, keys: Sequence[int]) -> list[JobRow]:
    """Read jobs whose ids may be past reading."""
    return [JobRow._make(row) for row in _JOBS_BY_KEY.rows(step.connection, json_array(keys))]


def stored_state(book: Book, row: JobRow) -> State:
    """Answer the state. Raises: CorruptRecord."""
    try:
        return State(row.state)
    except ValueError as error:
        raise corrupt(book.name, row.id, f"its state is {row.state!r}") from error


def corrupt(queue: str, job_id: str, why: str) -> CorruptRecord:
    """Answer the error that names the job and what is wrong with it."""
    return CorruptRecord(f"the record of job {job_id!r} in queue {queue!r} cannot be read: {why}")


# ---- leases

LEASE_KEY, LEASE_ID, LEASE_GENERATION, LEASE_FENCE, LEASE_ATTEMPTS = 0, 1, 2, 3, 5
LEASE_UNTIL_MS, LEASE_OUTCOME, LEASE_FREES_KEY, LEASE_UNIQUE_KEY = 9, 13, 14, 23
LEASE_TRAIL = 25
_SHAPE = (
    *((int,), (str,), (int,), (int,), (str,), (int,), (int,), (int,), (int,)),
    *((int, type(None)), (str,), (int,), (int,), (str, type(None)), (int,)),
    *((str,), (bytes,), (bytes,), (bytes,), (int,), (int,), (int,), (int,)),
    *((str, type(None)), (bytes, type(None)), (int,)),
)
_SHAPES = frozenset(product(*_SHAPE))


def is_lease(row: Row) -> bool:
    """Whether a lease row has the types that a lease is made of, and counters that count."""
    return tuple(map(type, row)) in _SHAPES and row[5] >= 0 and row[6] >= 0 and row[7] >= 0


def dated(row: Row) -> Row:
    """Answer a lease row as it is, or, when its deadline cannot be read, as one that is past it."""
    if type(row[LEASE_UNTIL_MS]) is int:
        return row
    return (*row[:LEASE_UNTIL_MS], 0, *row[LEASE_UNTIL_MS + 1 :])


def lease(queue: str, row: Row) -> Lease:
    """Answer the lease of an active job's row."""
    return claimed_lease(queue, row, Fence(number=row[3], nonce=row[4]), row[5], row[9], row[10])


def claimed_lease(
    queue: str, row: Row, fence: Fence, attempts: int, lease_until_ms: int, incarnation: str
) -> Lease:
    """Answer a lease from a row that was read before it was claimed."""
    return Lease(
        ref=Ref(queue=queue, id=row[1], generation=row[2]),
        fence=fence,
        task=row[15],
        payload=row[16],
        attempts=attempts,
        failures=row[6],
        stalls=row[7],
        max_stalls=row[19],
        keep=keep(row[20], row[21], row[22]),
        created_ms=row[8],
        lease_until_ms=lease_until_ms,
        incarnation=incarnation,
        suspect=row[11] != 0,
        cancel_requested=row[12] != 0,
        checkpoint=row[24],
        overrides=row[17],
        headers=row[18],
    )


@lru_cache(maxsize=256)
def keep(result_ms: int, record_ms: int, dead_ms: int) -> Keep:
    """Answer the retention; jobs of one task share one."""
    return Keep(result_ms=result_ms, record_ms=record_ms, dead_ms=dead_ms)
