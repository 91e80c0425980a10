"""Whole records of jobs. See `Insight.get`; `find` and `standing` read the same parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.layout import (
    AFTER_REPLAY,
    CANCEL,
    ENDS,
    MODES,
    OUTCOMES,
    POLICIES,
    PRIORITY_ZERO,
    RUNS,
    SUSPECT,
    WITH_ERROR,
    long,
    short,
    u48,
)
from leasemq.backends.redis.leasing import terms_by_number, unreadable
from leasemq.backends.redis.parsing import NEVER_CLAIMED, Rare, Run, body_of, head_of, run_of, terms_of
from leasemq.protocol.insight import Attempt, JobRecord, RefusedWrite
from leasemq.protocol.model import HISTORY_LIMIT, Parent, Ref, Unique

_PAST_BYTES = 48


async def get(calls: Calls, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
    """See `Insight.get`."""
    if not ids:
        return ()
    found, flat, now_ms = await calls.ask("get", queue, [*map(short, ids)])
    terms = terms_by_number(flat)
    return tuple(None if parts is None else record(queue, parts, terms, now_ms) for parts in found)


def record(queue: str, parts: Sequence[Any], terms: dict[int, bytes], now_ms: int) -> JobRecord:
    """Answer the record that telling.lua told in parts. Raises: CorruptRecord."""
    try:
        return _record(queue, parts, terms, now_ms)
    except (ValueError, LookupError, TypeError) as error:
        raise unreadable(queue, _named(parts[0]), str(error)) from error


def _named(stored: bytes) -> str:
    try:
        return long(stored)
    except ValueError:
        return repr(stored)


def _record(queue: str, parts: Sequence[Any], blobs: dict[int, bytes], now_ms: int) -> JobRecord:
    id_, raw, run_raw, flat, past, refused, log, parents = parts
    head = head_of(raw, run_raw)
    payload, rare = body_of(raw, head)
    terms = terms_of(rare.terms if head.terms == 0 else blobs.get(head.terms))
    run = run_of(run_raw) if head.flags & RUNS else NEVER_CLAIMED
    extra = dict(zip(flat[::2], flat[1::2], strict=True))
    is_kept = run.result_until_ms == 0 or run.result_until_ms > now_ms
    return JobRecord(
        ref=Ref(queue=queue, id=long(id_), generation=head.generation),
        task=terms.task,
        payload=payload,
        state=head.state,
        priority=head.priority - PRIORITY_ZERO,
        created_ms=head.created_ms,
        due_ms=head.due_ms,
        expires_ms=head.expires_ms or None,
        attempts=run.attempts,
        failures=run.failures,
        stalls=run.stalls,
        max_stalls=terms.max_stalls,
        suspect=head.flags & SUSPECT != 0,
        cancel_requested=head.flags & CANCEL != 0,
        fence=run.fence,
        lease_until_ms=run.lease_until_ms or None,
        ended_ms=run.ended_ms or None,
        keep_until_ms=run.keep_until_ms or None,
        result=run.result if is_kept else None,
        result_until_ms=run.result_until_ms or None,
        error=extra.get(b"error"),
        reason=_text(extra.get(b"reason")),
        progress=extra.get(b"progress"),
        checkpoint=extra.get(b"checkpoint"),
        keep=terms.keep,
        unique=_unique(rare),
        open_parents=tuple(map(_parent, parents)),
        creator=_creator(rare),
        replays=run.replays,
        overrides=rare.overrides,
        headers=rare.headers,
        history=_history(run, past, extra.get(b"error")),
        refused=tuple(map(_refused, refused)),
        refused_count=int(extra.get(b"refused", 0)),
        log=tuple(log),
        trail=rare.trail,
        born=str(head.born),
    )


def _history(run: Run, past: Sequence[bytes], error: bytes | None) -> tuple[Attempt, ...]:
    """The attempts that were banked, and the newest one, which lies in the run."""
    history = [*map(_attempt, past)]
    if run.claimed_ms:
        history.append(
            Attempt(
                number=run.attempts,
                worker=run.worker,
                incarnation=run.incarnation,
                fence=run.fence,
                claimed_ms=run.claimed_ms,
                renewed_ms=run.renewed_ms,
                ended_ms=run.attempt_ended_ms or None,
                outcome=OUTCOMES[run.outcome - 1] if run.outcome else None,
                error=error if run.bits & WITH_ERROR else None,
                replay=run.bits & AFTER_REPLAY != 0,
            )
        )
    return tuple(history[-HISTORY_LIMIT:])


def _attempt(raw: bytes) -> Attempt:
    number = int.from_bytes
    incarnation_at = _PAST_BYTES + raw[39]
    worker_at = incarnation_at + number(raw[40:42])
    error_at = worker_at + number(raw[42:44])
    if len(raw) != error_at + number(raw[44:48]):
        raise ValueError(f"an attempt has {len(raw)} bytes")
    return Attempt(
        number=number(raw[:4]),
        worker=raw[worker_at:error_at].decode(),
        incarnation=long(raw[incarnation_at:worker_at]),
        fence=number(raw[4:11]),
        claimed_ms=u48(raw, 11),
        renewed_ms=u48(raw, 17),
        ended_ms=u48(raw, 23) or None,
        outcome=OUTCOMES[raw[29] - 1] if raw[29] else None,
        error=raw[error_at:] if raw[30] & WITH_ERROR else None,
        replay=raw[30] & AFTER_REPLAY != 0,
    )


def _refused(raw: bytes) -> RefusedWrite:
    return RefusedWrite(at_ms=u48(raw, 0), fence=int.from_bytes(raw[6:13]), write=raw[13:].decode())


def _unique(rare: Rare) -> Unique | None:
    if not rare.mode:
        return None
    return Unique(
        key=rare.key.decode(),
        mode=MODES[rare.mode - 1],
        until=ENDS[rare.ends - 1],
        window_ms=rare.window - 1 if rare.window else None,
    )


def _creator(rare: Rare) -> Ref | None:
    if not rare.creator_id:
        return None
    return Ref(
        queue=rare.creator_queue.decode(), id=long(rare.creator_id), generation=rare.creator_generation
    )


def _parent(raw: bytes) -> Parent:
    size = int.from_bytes(raw[1:3])
    return Parent(queue=raw[3 : 3 + size].decode(), id=long(raw[3 + size :]), on_failure=POLICIES[raw[0] - 1])


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
