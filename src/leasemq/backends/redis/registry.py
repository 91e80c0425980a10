"""Names of queues, and workers: what belongs to a namespace rather than to a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.keys import REGISTRY, WORKERS
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import WorkerInfo

_pack = msgspec.msgpack.Encoder().encode
_unpack_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


async def register_paused(calls: Calls, queue: str) -> None:
    """Enter the name of a queue that may never have had a job."""
    await calls.ask_tag("register", REGISTRY, queue.encode(), 1)


async def queues(calls: Calls) -> Sequence[str]:
    """See `Insight.queues`."""
    names: set[str] = set()
    async for part in parts(calls, "queues", REGISTRY):
        for name, was_only_paused in zip(part[::2], part[1::2], strict=True):
            if float(was_only_paused) == 0 or await _is_paused(calls, name.decode()):
                names.add(name.decode())
    return tuple(sorted(names, key=str.encode))


async def _is_paused(calls: Calls, queue: str) -> bool:
    return bool(await calls.ask("is_paused", queue))


async def announce(calls: Calls, worker: WorkerInfo, ttl_ms: int) -> None:
    """See `Insight.announce`."""
    await calls.ask_tag("announce", WORKERS, ttl_ms, worker.incarnation.encode(), _pack(worker))


async def retire(calls: Calls, incarnation: str) -> None:
    """See `Insight.retire`."""
    await calls.ask_tag("retire", WORKERS, incarnation.encode())


async def workers(calls: Calls) -> Sequence[WorkerInfo]:
    """See `Insight.workers`. Raises: CorruptRecord."""
    seen: dict[str, WorkerInfo] = {}
    async for part in parts(calls, "workers", WORKERS):
        for seen_ms, info in part:
            worker = _worker(info)
            seen[worker.incarnation] = replace(worker, seen_ms=int(seen_ms))
    return tuple(sorted(seen.values(), key=lambda worker: (worker.worker, worker.incarnation)))


def _worker(info: bytes) -> WorkerInfo:
    try:
        return _unpack_worker(info)
    except (msgspec.MsgspecError, TypeError) as error:
        raise CorruptRecord(f"the announcement of a worker cannot be read: {error}") from error


async def parts(calls: Calls, script: str, tag: str, *args: object) -> AsyncIterator[Sequence[Any]]:
    """Read all that a tag has, a part at a time: what is there throughout comes once at least."""
    cursor = b"0"
    while True:
        cursor, part = await calls.ask_tag(script, tag, *args, cursor)
        yield part
        if cursor == b"0":
            return
