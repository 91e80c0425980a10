"""Schedules as data. See `leasemq.operations.Schedules`.

A schedule lies in the tag of the queue that it fills, so that its jobs and its cursor move in one step;
which queue that is, is written in a tag of their own. A schedule that is put for another queue moves:
its record says so first, and from then on it fills none; whoever meets it carries the move out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leasemq.backends.redis.accepting import enqueued, packed_jobs
from leasemq.backends.redis.calling import Calls, after_a_part
from leasemq.backends.redis.keys import REGISTRY, SCHEDULES
from leasemq.backends.redis.registry import parts
from leasemq.errors import BackendUnavailable
from leasemq.protocol.checks import check_new_jobs, check_schedule
from leasemq.protocol.insight import Schedule
from leasemq.protocol.model import Enqueued, NewJob

_TRIES = 10  # against others who put or delete the same schedule meanwhile
_PART = 100
_NEW, _PUT, _MOVED = 0, 1, 2  # as put_schedule.lua takes them


class _Found(NamedTuple):
    schedule: Schedule
    to: str | None  # the queue that it is on its way to


async def put_schedule(calls: Calls, schedule: Schedule) -> None:
    """See `Schedules.put_schedule`. Raises: BackendUnavailable, when others change it all the time."""
    check_schedule(schedule)
    for _ in range(_TRIES):
        if await _is_put(calls, schedule):
            return
    raise BackendUnavailable(
        f"schedule {schedule.name!r} is put and deleted by others all the time: put it again"
    )


async def _is_put(calls: Calls, schedule: Schedule) -> bool:
    name, queue = schedule.name, schedule.queue
    known = await _queue_of(calls, name)
    if known is None:
        if not await _enrol(calls, name, "", queue):
            return False
        return await _store(calls, schedule, _NEW)
    if known == queue:
        is_stored = await _store(calls, schedule, _PUT)
        if not is_stored:
            await _read(calls, known, [name])  # which carries out its move
        return is_stored
    begun = await calls.ask("move_schedule", known, name.encode(), queue.encode(), *_values(schedule))
    if begun < 0:  # there is none: what is written in the registry is left over
        await _enrol(calls, name, known, "")
        return False
    with after_a_part(begun == 1):
        await _read(calls, known, [name])
    return bool(begun == 1)


async def delete_schedule(calls: Calls, name: str) -> bool:
    """See `Schedules.delete_schedule`."""
    for _ in range(_TRIES):
        known = await _queue_of(calls, name)
        if known is None:
            return False
        dropped = await calls.ask("drop_schedule", known, name.encode(), b"")
        if dropped == 0:
            await _read(calls, known, [name])
            continue
        with after_a_part(dropped == 1):
            await _enrol(calls, name, known, "")
        return bool(dropped == 1)
    raise BackendUnavailable(f"schedule {name!r} is moved by others all the time: delete it again")


async def schedules(calls: Calls) -> Sequence[Schedule]:
    """See `Schedules.schedules`."""
    queues: dict[bytes, set[str]] = {}
    async for part in parts(calls, "enrolled", SCHEDULES, b""):
        for name, queue in zip(part[::2], part[1::2], strict=True):
            queues.setdefault(queue, set()).add(name.decode())
    found = {
        each.name: each for queue, names in queues.items() for each in await _all(calls, queue, sorted(names))
    }  # by name: one that moves meanwhile may come twice
    return tuple(sorted(found.values(), key=lambda schedule: schedule.name.encode()))


async def _all(calls: Calls, queue: bytes, names: Sequence[str]) -> list[Schedule]:
    """Read those of these schedules that there are."""
    found: list[Schedule | None] = []
    for start in range(0, len(names), _PART):
        found += await _read(calls, queue.decode(), names[start : start + _PART])
    return [schedule for schedule in found if schedule is not None]


async def advance_schedule(
    calls: Calls, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
) -> Sequence[Enqueued] | None:
    """See `Schedules.advance_schedule`."""
    queue = await _queue_of(calls, name)
    (schedule,) = (None,) if queue is None else await _read(calls, queue, [name])
    if schedule is None or schedule.paused or schedule.cursor_ms != seen_cursor_ms:
        return None
    check_new_jobs(schedule.queue, jobs)
    cursors = (str(seen_cursor_ms).encode(), str(new_cursor_ms).encode())
    packed = packed_jobs(jobs)
    answer = await calls.ask("advance_schedule", schedule.queue, name.encode(), *cursors, 0, *packed)
    if answer == 1:
        await calls.ask_tag("register", REGISTRY, schedule.queue.encode())
        answer = await calls.ask("advance_schedule", schedule.queue, name.encode(), *cursors, 1, *packed)
    return None if answer == 0 else enqueued(schedule.queue, jobs, answer)


async def _queue_of(calls: Calls, name: str) -> str | None:
    known = await calls.ask_tag("enrolled", SCHEDULES, name.encode(), b"0")
    return None if known is None else known.decode()


async def _enrol(calls: Calls, name: str, seen: str, queue: str) -> bool:
    """Write down the queue if `seen` is what is written; answers whether it is so now."""
    words = (name.encode(), seen.encode(), queue.encode())
    return bool(await calls.ask_tag("enrol", SCHEDULES, *words))


async def _store(calls: Calls, schedule: Schedule, mode: int) -> bool:
    name = schedule.name.encode()
    return bool(await calls.ask("put_schedule", schedule.queue, name, mode, *_values(schedule)))


def _values(schedule: Schedule) -> tuple[bytes, bytes, int]:
    return schedule.spec, str(schedule.cursor_ms).encode(), int(schedule.paused)


async def _read(calls: Calls, queue: str, names: Sequence[str]) -> list[Schedule | None]:
    """Read schedules of a queue's tag; those on their way are brought there."""
    answers = await calls.ask("schedules", queue, [name.encode() for name in names])
    read: list[Schedule | None] = []
    for name, answer in zip(names, answers, strict=True):
        found = None if answer is None else _found(name, queue, answer)
        if found is not None and found.to is not None:
            await _carry_out(calls, found.schedule, queue)
        read.append(None if found is None else found.schedule)
    return read


def _found(name: str, queue: str, answer: Sequence[bytes | None]) -> _Found:
    spec, cursor, paused, to = answer
    schedule = Schedule(
        name=name,
        queue=queue if to is None else to.decode(),
        spec=spec or b"",
        cursor_ms=int(cursor or 0),
        paused=paused == b"1",
    )
    return _Found(schedule, schedule.queue if to is not None else None)


async def _carry_out(calls: Calls, schedule: Schedule, queue: str) -> None:
    """Move a schedule from this queue's tag. Each step may be repeated, by anybody, and cut short."""
    await _store(calls, schedule, _MOVED)
    await _enrol(calls, schedule.name, queue, schedule.queue)
    await calls.ask("drop_schedule", queue, schedule.name.encode(), schedule.queue.encode())
