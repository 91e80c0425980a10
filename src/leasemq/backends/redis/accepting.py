"""Enqueue: what is packed for the script, and what it answers. See `Work.enqueue`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Any

from msgspec import Raw

from leasemq.backends.redis.arguments import item, word
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.keys import REGISTRY
from leasemq.backends.redis.layout import (
    ENDS,
    MODES,
    PLAIN_ID_LENGTH,
    PLAIN_PAYLOAD_BYTES,
    POLICIES,
    PRIORITY_ZERO,
    RARE,
    STATES,
    TRAIL,
    UNIQUE,
    long,
    numbers,
    short,
)
from leasemq.backends.redis.leasing import unreadable
from leasemq.protocol.checks import check_new_jobs
from leasemq.protocol.model import Acceptance, Enqueued, Keep, NewJob, Ref, State

_ACCEPTANCES = (
    Acceptance.CREATED, Acceptance.EXISTING, Acceptance.SKIPPED, Acceptance.REPLACED, Acceptance.DEBOUNCED,
)  # fmt: skip
_MODES, _ENDS, _POLICIES = numbers(MODES), numbers(ENDS), numbers(POLICIES)
_WAITING = STATES.index(State.WAITING) + 1
_CREATED = (1, 1, _WAITING, 1, None)  # as accepting.lua answers it of one job
_SIZES = Struct(">BH")  # of an id and a payload
_REUSE_BITS = {state: 1 << place for place, state in enumerate(STATES[4:])}


async def enqueue(calls: Calls, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """See `Work.enqueue`."""
    check_new_jobs(queue, jobs)
    if not jobs:
        return ()
    rows = _Rows(jobs)
    answers = await calls.ask("enqueue", queue, 0, rows.terms, rows.packed)
    if answers is None:  # its name first: no job may lie in a queue that nobody would find
        await calls.ask_tag("register", REGISTRY, queue.encode())
        answers = await calls.ask("enqueue", queue, 1, rows.terms, rows.packed)
    return enqueued(queue, jobs, [*_spread(answers, rows.sizes)])


class _Rows:
    """Jobs as enqueue.lua takes them: one by one, or runs of plain ones that are alike. Owner: the call."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.packed: list[Raw] = []
        self.sizes: list[int] = []  # of the runs; 0: it is one job by itself
        self._places: dict[bytes, int] = {}
        self._shape: tuple[object, ...] = ()  # what the jobs of the run have in common
        self._common: tuple[int, int, int] = (0, 0, 0)  # the same, as it is packed
        self._run: list[bytes] = []
        for job in jobs:
            self._add(job)
        self._end_run()

    @property
    def terms(self) -> list[bytes]:
        """The distinct terms of the jobs, in the order of their places."""
        return list(self._places)

    def _add(self, job: NewJob) -> None:
        if not _is_plain(job):
            self._end_run()
            self.packed.append(_item(job, self._places))
            self.sizes.append(0)
            return
        shape = (job.task, job.priority, job.max_stalls, job.keep, job.reuse)
        if shape != self._shape:
            self._end_run()
            self._shape = shape
            terms = packed_terms(job.max_stalls, job.keep, job.task)
            self._common = self._places.setdefault(terms, len(self._places) + 1), _priority(job), _reuse(job)
        id_, payload = short(job.id), job.payload
        self._run += (_SIZES.pack(len(id_), len(payload)), id_, payload)

    def _end_run(self) -> None:
        if self._run:
            self.packed.append(item(*self._common, word(b"".join(self._run))))
            self.sizes.append(len(self._run) // 3)
            self._run = []
        self._shape = ()


def _is_plain(job: NewJob) -> bool:
    """Whether it waits at once and has nothing that few jobs have: see lua/shared/plain.lua."""
    return not (
        job.delay_ms
        or job.due_at_ms is not None
        or job.ttl_ms is not None
        or job.unique is not None
        or job.creator is not None
        or job.request
        or job.trail
        or job.overrides
        or job.headers
        or job.parents
        or len(job.payload) > PLAIN_PAYLOAD_BYTES
        or len(job.id) > PLAIN_ID_LENGTH
    )


def _spread(answers: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Answer one answer per job, from those of rows."""
    for answer, size in zip(answers, sizes, strict=True):
        if not size:
            yield answer
        elif answer == _WAITING:  # all of them were stored
            yield from repeat(_CREATED, size)
        else:
            yield from answer


def packed_jobs(jobs: Sequence[NewJob]) -> tuple[list[bytes], list[Raw]]:
    """Answer the distinct terms of these jobs, and an item for each as accepting.lua takes it."""
    places: dict[bytes, int] = {}
    items = [_item(job, places) for job in jobs]
    return list(places), items


def enqueued(queue: str, jobs: Sequence[NewJob], answers: Sequence[Any]) -> tuple[Enqueued, ...]:
    """Answer what accepting.lua answered. Raises: CorruptRecord, when the rest of the batch is stored."""
    return tuple(_enqueued(queue, job, answer) for job, answer in zip(jobs, answers, strict=True))


def _item(job: NewJob, places: dict[bytes, int]) -> Raw:
    terms = packed_terms(job.max_stalls, job.keep, job.task)
    place = places.setdefault(terms, len(places) + 1)
    rare = packed_rare(job)
    marks = (RARE if rare else 0) | (UNIQUE if job.unique else 0) | (TRAIL if job.trail else 0)
    parents = [(word(p.queue.encode()), word(short(p.id)), _POLICIES[p.on_failure]) for p in job.parents]
    return item(
        word(short(job.id)),
        _priority(job),
        job.delay_ms,
        -1 if job.due_at_ms is None else job.due_at_ms,
        -1 if job.ttl_ms is None else job.ttl_ms,
        place,
        marks,
        _reuse(job),
        -1 if job.at_most_ms is None else job.at_most_ms,
        word(rare),
        word(job.payload),
        parents or False,
    )


def _priority(job: NewJob) -> int:
    return job.priority + PRIORITY_ZERO


def _reuse(job: NewJob) -> int:
    return sum(_REUSE_BITS.get(state, 0) for state in job.reuse) if job.reuse else 0


@lru_cache(maxsize=1_024)
def packed_terms(max_stalls: int, keep: Keep, task: str) -> bytes:
    """Answer what most jobs of a task have in common, as records.lua reads it."""
    ages_ms = (keep.result_ms, keep.record_ms, keep.dead_ms)
    return b"".join((max_stalls.to_bytes(4), *(age_ms.to_bytes(6) for age_ms in ages_ms), task.encode()))


def packed_rare(job: NewJob) -> bytes:
    """Answer what most jobs do not have, as records.lua reads it; empty: this one has none of it."""
    unique, creator = job.unique, job.creator
    is_plain = unique is None and creator is None and job.ttl_ms is None
    if is_plain and not (job.request or job.trail or job.overrides or job.headers):
        return b""
    window_ms = None if unique is None else unique.window_ms
    head = (
        job.request.to_bytes(8),
        (0 if job.ttl_ms is None else job.ttl_ms + 1).to_bytes(6),
        job.trail.to_bytes(2),
        (0 if window_ms is None else window_ms + 1).to_bytes(6),
        bytes((0, 0) if unique is None else (_MODES[unique.mode], _ENDS[unique.until])),
        (0 if creator is None else creator.generation).to_bytes(4),
    )
    key = b"" if unique is None else unique.key.encode()
    made_by = (b"", b"") if creator is None else (creator.queue.encode(), short(creator.id))
    texts = (key, *made_by, b"", job.overrides, job.headers)
    return b"".join((*head, *(part for text in texts for part in (len(text).to_bytes(4), text))))


def _enqueued(queue: str, job: NewJob, answer: Sequence[Any]) -> Enqueued:
    if answer is _CREATED:
        ref = Ref(queue=queue, id=job.id, generation=1)
        return Enqueued(ref=ref, acceptance=Acceptance.CREATED, state=State.WAITING)
    acceptance, generation, state, is_same, other = answer
    id_ = job.id if other is None else long(other)
    if acceptance == 0:
        raise unreadable(queue, id_, "its id is known")
    return Enqueued(
        ref=Ref(queue=queue, id=id_, generation=generation),
        acceptance=_ACCEPTANCES[acceptance - 1],
        state=STATES[state - 1] if state else None,
        same_payload=is_same == 1,
    )
