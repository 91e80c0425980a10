"""What operators and handles do to jobs. See `leasemq.backend.Control`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from leasemq.backends.redis.calling import Calls, after_a_part
from leasemq.backends.redis.layout import PRIORITY_ZERO, STATES, long, numbers, short
from leasemq.backends.redis.leasing import unreadable
from leasemq.backends.redis.registry import register_paused
from leasemq.protocol.checks import check_priority
from leasemq.protocol.insight import CancelAnswer, Change, Changed
from leasemq.protocol.model import Ref, State

PART: Final = 500  # jobs of one call: whoever else calls the server waits for one
_CHANGES = (Change.DONE, Change.ILLEGAL, Change.NOT_FOUND, Change.CONFLICT)  # as operating.lua numbers them
_CANCELS = (
    CancelAnswer.CANCELLED, CancelAnswer.CANCELLING, CancelAnswer.FINISHED, CancelAnswer.NOT_FOUND,
)  # fmt: skip
_NUMBERS = numbers(STATES)
_LAST = 2**53


def exact(number: int) -> int:
    """Answer the nearest number that scripts have exactly."""
    return max(-_LAST, min(number, _LAST))


def life(generation: int | None) -> int:
    """Answer a generation as scripts take it, -1 for any; one that cannot be is that of no job."""
    if generation is None:
        return -1
    return generation if 0 <= generation <= _LAST else _LAST


def state_bits(states: Iterable[State]) -> int:
    """Answer a set of states as scripts take it."""
    return sum(1 << (_NUMBERS[state] - 1) for state in states)


async def cancel(
    calls: Calls, queue: str, ids: Sequence[str], generation: int | None
) -> Sequence[CancelAnswer]:
    """See `Control.cancel`. Raises: CorruptRecord, when the rest is done."""
    answers = await _each(calls, "cancel", queue, ids, life(generation))
    _check_read(queue, ids, answers)
    return tuple(_CANCELS[answer - 1] for answer in answers)


async def pause(calls: Calls, queue: str) -> None:
    """See `Control.pause`. Its name first: a paused queue is listed."""
    await register_paused(calls, queue)
    await calls.ask("pause", queue)


async def resume(calls: Calls, queue: str) -> None:
    """See `Control.resume`."""
    await calls.ask("resume", queue)


async def promote(calls: Calls, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
    """See `Control.promote`."""
    return _changed(queue, ids, await _each(calls, "promote", queue, ids))


async def reprioritise(calls: Calls, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
    """See `Control.reprioritise`."""
    check_priority(priority)
    return _changed(queue, ids, await _each(calls, "reprioritise", queue, ids, priority + PRIORITY_ZERO))


async def reschedule(
    calls: Calls, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None
) -> Sequence[Changed]:
    """See `Control.reschedule`."""
    due = -1 if due_at_ms is None else max(exact(due_at_ms), 0)
    return _changed(queue, ids, await _each(calls, "reschedule", queue, ids, exact(delay_ms), due))


async def replay(calls: Calls, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
    """See `Control.replay`."""
    return _changed(queue, ids, await _each(calls, "replay", queue, ids, request_id.to_bytes(8)))


async def remove(
    calls: Calls, queue: str, ids: Sequence[str], states: frozenset[State], *, force: bool
) -> Sequence[Changed]:
    """See `Control.remove`. A record that cannot be read goes too."""
    return _changed(queue, ids, await _each(calls, "remove", queue, ids, int(force), state_bits(states)))


async def drain(calls: Calls, queue: str, states: frozenset[State], limit: int) -> int:
    """See `Control.drain`."""
    return await _in_parts(calls, "drain", queue, limit, state_bits(states))


async def purge(calls: Calls, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
    """See `Control.purge`."""
    return await _in_parts(calls, "purge", queue, limit, state_bits(states), exact(older_than_ms))


async def obliterate(calls: Calls, queue: str, *, force: bool) -> int | None:
    """See `Control.obliterate`. What is accepted after the first part stays."""
    removed, bucket, until = 0, 0, -1
    while bucket >= 0:
        with after_a_part(until >= 0):
            answer = await calls.ask("obliterate", queue, int(force), bucket, until, PART)
        if answer is None:
            return None
        part, bucket, until = answer
        removed += part
    return removed


async def _each(calls: Calls, script: str, queue: str, ids: Sequence[str], *args: object) -> list[Any]:
    """Ask for each of the ids, a part of them at a time."""
    answers: list[Any] = []
    for start in range(0, len(ids), PART):
        with after_a_part(start > 0):
            answers += await calls.ask(script, queue, *args, [*map(short, ids[start : start + PART])])
    return answers


async def _in_parts(calls: Calls, script: str, queue: str, limit: int, *args: object) -> int:
    """Do up to `limit`, a part at a time; answers how many."""
    done = 0
    while done < limit:
        asked = min(limit - done, PART)
        with after_a_part(done > 0):
            part = await calls.ask(script, queue, asked, *args)
        done += part
        if part < asked:
            break
    return done


def _changed(queue: str, ids: Sequence[str], answers: Sequence[Any]) -> tuple[Changed, ...]:
    _check_read(queue, ids, [answer[0] for answer in answers])
    return tuple(_one_changed(queue, answer) for answer in answers)


def _one_changed(queue: str, answer: Sequence[Any]) -> Changed:
    change, state, *holder = answer
    return Changed(
        change=_CHANGES[change - 1],
        state=STATES[state - 1] if state else None,
        holder=Ref(queue=queue, id=long(holder[0]), generation=holder[1]) if holder else None,
    )


def _check_read(queue: str, ids: Sequence[str], answers: Sequence[int]) -> None:
    for job_id, answer in zip(ids, answers, strict=True):
        if answer == 0:
            raise unreadable(queue, job_id, "an operator's change met it")
