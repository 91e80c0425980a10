"""What can be read of jobs, none of which changes anything. See `leasemq.backend.Insight`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.control import exact, life, state_bits
from leasemq.backends.redis.layout import long, short, u48
from leasemq.backends.redis.leasing import terms_by_number
from leasemq.backends.redis.records import record
from leasemq.errors import CorruptRecord
from leasemq.protocol.checks import check_cursor
from leasemq.protocol.insight import Filter, JobRecord, Page, Slip, fitting
from leasemq.protocol.model import Ref
from leasemq.protocol.names import shown
from leasemq.protocol.standing import ALONE_LIMIT, Standing

_PAGE_LIMIT = 1_000
_SLIPS_PART = 100  # their results may be large
_LAST_NUMBER = 2**53
_SLIP_BYTES = 14

_Found = tuple[int, JobRecord | CorruptRecord]  # number of acceptance, and what is stored


async def slips(calls: Calls, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
    """See `Insight.slips`. Raises: CorruptRecord."""
    found: list[Slip | None] = []
    for start in range(0, len(lives), _SLIPS_PART):
        part = lives[start : start + _SLIPS_PART]
        asked = ([short(id_) for id_, _ in part], [life(generation) for _, generation in part])
        answers: Sequence[Any] = await calls.ask("slips", queue, *asked)
        for (id_, _), answer in zip(part, answers, strict=True):
            found.append(None if answer is None else _slip(queue, id_, *answer))
    return tuple(found)


def _slip(queue: str, id_: str, generation: int, raw: bytes) -> Slip:
    result_at = _SLIP_BYTES + int.from_bytes(raw[12:14])
    try:
        if len(raw) < result_at:
            raise ValueError(f"it has {len(raw)} bytes")
        task = raw[_SLIP_BYTES:result_at].decode()
    except ValueError as error:
        told = f"the result kept of job {shown(id_)} in queue {shown(queue)} cannot be read: {error}"
        raise CorruptRecord(told) from error
    ref = Ref(queue=queue, id=id_, generation=generation)
    return Slip(ref=ref, task=task, result=raw[result_at:], until_ms=u48(raw, 0))


async def find(calls: Calls, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
    """See `Insight.find`. Records that cannot be read are left out: `get` says what is wrong with them."""
    after = -1 if cursor is None else min(check_cursor(cursor), _LAST_NUMBER)
    limit = max(0, min(limit, _PAGE_LIMIT))
    found: list[_Found] = []
    is_all = False
    while not is_all and len(found) <= limit:  # one more than asked for says that there are more
        asked = _asked(where, after, limit + 1 - len(found))
        parts, numbers, after, ended, terms, now_ms = await calls.ask("find", queue, *asked)
        known = terms_by_number(terms)
        found += [
            (number, _read(queue, part, known, now_ms)) for number, part in zip(numbers, parts, strict=True)
        ]
        is_all = ended == 1
        if len(list(fitting(one for _, one in found))) < len(found):
            break
    page = list(fitting(one for _, one in found[:limit]))
    jobs = tuple(one for one in page if isinstance(one, JobRecord))
    return Page(jobs=jobs, cursor=str(found[len(page) - 1][0]) if 0 < len(page) < len(found) else None)


def _asked(where: Filter, after: int, limit: int) -> tuple[object, ...]:
    return (
        after,
        1 if where.oldest_first else -1,
        limit,
        state_bits(where.states),
        (where.task or "").encode(errors="surrogatepass"),
        (where.id_prefix or "").encode(errors="surrogatepass"),
        (where.reason or "").encode(errors="surrogatepass"),
        where.older_than_ms is not None and exact(where.older_than_ms),
        where.newer_than_ms is not None and exact(where.newer_than_ms),
    )


def _read(
    queue: str, parts: Sequence[Any], terms: dict[int, bytes], now_ms: int
) -> JobRecord | CorruptRecord:
    try:
        return record(queue, parts, terms, now_ms)
    except CorruptRecord as error:
        return error


async def standing(calls: Calls, queue: str, job_id: str) -> Standing | None:
    """See `Insight.standing`. Raises: CorruptRecord."""
    answer: Any = await calls.ask("standing", queue, short(job_id))
    if answer is None:
        return None
    parts, terms, now_ms, merged, paused, ahead, waits, reserved_for, reserved_until, alone, holder = answer
    return Standing(
        now_ms=now_ms,
        record=record(queue, parts, terms_by_number(terms), now_ms),
        merged_into=_ref(queue, merged),
        paused=paused == 1,
        ahead=ahead,
        suspect_waits=waits == 1,
        reserved_for=long(reserved_for),
        reserved_until_ms=int(reserved_until),
        alone=tuple(sorted(set(map(long, alone)))[:ALONE_LIMIT]),
        key_holder=_ref(queue, holder),
    )


def _ref(queue: str, found: Sequence[Any] | None) -> Ref | None:
    return None if found is None else Ref(queue=queue, id=long(found[0]), generation=found[1])
