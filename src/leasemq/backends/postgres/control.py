"""What operators and handles do to jobs. See `leasemq.backend.Control`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leasemq.backends.postgres.codes import STATE_CODES, STATES
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.checks import MAX_BATCH, check_priority
from leasemq.protocol.insight import CancelAnswer, Change, Changed
from leasemq.protocol.model import NOT_STARTED, TERMINAL, Ref, State

_CANCELS = dict(enumerate(CancelAnswer, start=1))
_CHANGES = dict(enumerate(Change, start=1))  # an answer is ten times this, and the code of the state found


async def cancel(
    store: Store, queue: str, ids: Sequence[str], generation: int | None
) -> Sequence[CancelAnswer]:
    """See `Control.cancel`."""
    steps = _Steps(store)
    answers: list[CancelAnswer] = []
    for part in _parts(ids):
        ((codes,),) = await steps.call("cancel", store.now_ms, store.channel, queue, part, generation)
        answers += [_CANCELS[code] for code in codes]
    return tuple(answers)


async def pause(store: Store, queue: str) -> None:
    """See `Control.pause`."""
    await store.call("pause", queue)


async def resume(store: Store, queue: str) -> None:
    """See `Control.resume`."""
    await store.call("resume", store.channel, queue)


async def promote(store: Store, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
    """See `Control.promote`."""
    steps = _Steps(store)
    answers: list[Changed] = []
    for part in _parts(ids):
        ((codes,),) = await steps.call("promote", store.now_ms, store.channel, queue, part)
        answers += map(_changed, codes)
    return tuple(answers)


async def reprioritise(store: Store, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
    """See `Control.reprioritise`."""
    steps = _Steps(store)
    check_priority(priority)
    answers: list[Changed] = []
    for part in _parts(ids):
        ((codes,),) = await steps.call("reprioritise", queue, part, priority)
        answers += map(_changed, codes)
    return tuple(answers)


async def reschedule(
    store: Store, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None
) -> Sequence[Changed]:
    """See `Control.reschedule`."""
    steps = _Steps(store)
    answers: list[Changed] = []
    for part in _parts(ids):
        ((codes,),) = await steps.call(
            "reschedule", store.now_ms, store.channel, queue, part, delay_ms, due_at_ms
        )
        answers += map(_changed, codes)
    return tuple(answers)


async def replay(store: Store, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
    """See `Control.replay`."""
    steps = _Steps(store)
    answers: list[Changed] = []
    for part in _parts(ids):
        (columns,) = await steps.call("replay", store.now_ms, store.channel, queue, part, request_id)
        for code, holder_id, holder_life in zip(*columns, strict=True):
            holder = None if holder_id is None else Ref(queue=queue, id=holder_id, generation=holder_life)
            answers.append(_changed(code, holder))
    return tuple(answers)


async def remove(
    store: Store, queue: str, ids: Sequence[str], states: frozenset[State], *, force: bool
) -> Sequence[Changed]:
    """See `Control.remove`. A record that cannot be read goes too."""
    steps = _Steps(store)
    answers: list[Changed] = []
    for part in _parts(ids):
        ((codes,),) = await steps.call(
            "remove", store.now_ms, store.channel, queue, part, force, _codes(states)
        )
        answers += map(_changed, codes)
    return tuple(answers)


async def drain(store: Store, queue: str, states: frozenset[State], limit: int) -> int:
    """See `Control.drain`."""
    steps = _Steps(store)
    drained = 0
    while (part := min(limit - drained, MAX_BATCH)) > 0:
        codes = _codes(states & NOT_STARTED)
        ((taken,),) = await steps.call("drain", store.now_ms, store.channel, queue, part, codes)
        drained += taken
        if taken < part:
            break
    return drained


async def purge(store: Store, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
    """See `Control.purge`; the longest ended first."""
    steps = _Steps(store)
    purged = 0
    while (part := min(limit - purged, MAX_BATCH)) > 0:
        codes = _codes(states & TERMINAL)
        ((taken,),) = await steps.call(
            "purge", store.now_ms, store.channel, queue, codes, older_than_ms, part
        )
        purged += taken
        if taken < part:
            break
    return purged


async def obliterate(store: Store, queue: str, *, force: bool) -> int | None:
    """See `Control.obliterate`."""
    steps = _Steps(store)
    obliterated = 0
    after: int | None = None
    until: int | None = None
    has_more = True
    while has_more:
        ((removed, after, until, has_more),) = await steps.call(
            "obliterate", store.now_ms, store.channel, queue, force, after, until, MAX_BATCH
        )
        if removed is None:
            return None
        obliterated += removed
    return obliterated


class _Steps:
    """The calls of one operation: once one was answered, the whole is done in part. Owner: the operation."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_begun = False

    async def call(self, name: str, *values: object) -> list[Row]:
        """See `Executor.call`."""
        try:
            rows = await self._store.call(name, *values)
        except BackendUnavailable as error:
            if not self._is_begun:
                raise
            raise IndeterminateWrite(f"only a part of it may have been done: repeat it ({error})") from error
        self._is_begun = True
        return rows


def _parts(ids: Sequence[str]) -> Iterator[list[str]]:
    """Answer the ids in order, in parts in which each is named once: the second time it is found changed."""
    part: dict[str, None] = {}
    for id_ in ids:
        if id_ in part or len(part) == MAX_BATCH:
            yield list(part)
            part = {}
        part[id_] = None
    if part:
        yield list(part)


def _codes(states: frozenset[State]) -> list[int]:
    return sorted(STATE_CODES[state] for state in states)


def _changed(code: int, holder: Ref | None = None) -> Changed:
    return Changed(change=_CHANGES[code // 10], state=STATES.get(code % 10), holder=holder)
