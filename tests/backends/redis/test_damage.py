"""Every key of a job, damaged in every state the job can be in: nobody else is stopped by it.

What is asked about the damaged job itself may be answered with a `CorruptRecord`; what is asked about its
queue must be answered, and must reach the other jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest
import redis

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.keys import queue_prefix
from leasemq.backends.redis.layout import short
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable, CorruptRecord, LeaseMQError
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import (
    NOT_STARTED,
    TERMINAL,
    Lease,
    OnParentFailure,
    Ref,
    State,
    Unique,
    UniqueMode,
)
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.servers import RedisServer

T = TypeVar("T")
Change = Callable[[redis.Redis, bytes], object]  # of what lies under a key

STAGES = ("waiting", "active", "lapsed", "scheduled", "blocked", "overdue", "ended")
QUEUE, BAD, GOOD = "mail", "bad", "good"
LEASE_MS, DAY_MS = 30_000, 86_400_000
KEY = Unique(key="k")
PREFIX = queue_prefix("leasemq", QUEUE)
HEAD_BYTES, RUN_BYTES = 56, 92
FIELDS = (b"error", b"reason", b"progress", b"checkpoint", b"settled", b"refused", b"trail", b"replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One change behind the backend's back; `key` is a part of the job, or a field's name for values."""

    key: bytes
    told: str
    change: Change

    def plant(self, server: redis.Redis) -> bool:
        """Do it; answers whether there was anything to damage."""
        key = PREFIX + self.key + b":" + short(BAD)
        if not server.exists(key):
            return False
        self.change(server, key)
        return True


def _of_another_type(server: redis.Redis, key: bytes) -> None:
    is_text = server.type(key) == b"string"
    server.delete(key)
    if is_text:
        server.rpush(key, "what?")
    else:
        server.set(key, "what?")


def _cut(server: redis.Redis, key: bytes, left: int) -> None:
    server.set(key, cast(bytes, server.get(key))[:left])


def damages(step: int) -> Iterator[Damage]:
    """Each part damaged as a whole; of the two packed ones every `step`th byte too."""
    for part in (b"j", b"r", b"x", b"h", b"f", b"g", b"t", b"m", b"p", b"d"):
        yield Damage(key=part, told="is of another type", change=_of_another_type)
        yield Damage(key=part, told="is gone", change=lambda server, key: server.delete(key))
    yield from _of_packed(b"j", HEAD_BYTES, step)
    yield from _of_packed(b"r", RUN_BYTES, step)
    yield from (_field(field, value) for field in FIELDS for value in (b"what?", b"", b"\xff\xfe"))
    for part in (b"h", b"f", b"t"):
        yield Damage(
            key=part, told="has another entry", change=lambda server, key: server.lset(key, 0, "what?")
        )
    for part in (b"p", b"d"):
        yield Damage(
            key=part, told="has another field", change=lambda server, key: server.hset(key, "what?", "?")
        )


def _of_packed(part: bytes, size: int, step: int) -> Iterator[Damage]:
    for left in (1, size - 1, size, -1):
        yield Damage(key=part, told=f"is cut at {left}", change=partial(_cut, left=left))
    yield Damage(key=part, told="is longer", change=lambda server, key: server.append(key, "more"))
    for at in range(0, size, step):
        for byte in (b"\0", b"\xff"):
            yield Damage(
                key=part, told=f"has {byte!r} at {at}", change=partial(_overwritten, at=at, byte=byte)
            )


def _overwritten(server: redis.Redis, key: bytes, at: int, byte: bytes) -> None:
    server.setrange(key, at, byte)


def _field(field: bytes, value: bytes) -> Damage:
    def change(server: redis.Redis, key: bytes) -> None:
        server.hset(key, field, value)

    return Damage(key=b"x", told=f"has {value!r} as {field!r}", change=change)


class Stage:
    """A server whose job `bad` is at some stage of its life, and what is held of it. Owner: the test."""

    def __init__(self, server: redis.Redis, now_ms: int, leases: tuple[Lease, ...]) -> None:
        self._server = server
        self._stored = {key: cast(bytes, server.dump(key)) for key in server.scan_iter()}
        self.now_ms = now_ms
        self.leases = leases

    def restore(self) -> None:
        """Put everything back as it was."""
        with self._server.pipeline(transaction=False) as pipeline:
            pipeline.flushdb()
            for key, dump in self._stored.items():
                pipeline.restore(key, 0, dump)
            pipeline.execute()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may harm."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


def backend_on(server: RedisServer, clock: ManualClock) -> RedisBackend:
    return RedisBackend(replace(located(server.url), clock=clock))


async def staged(name: str, backend: RedisBackend, clock: ManualClock) -> tuple[Lease, ...]:
    """Make one stage: `bad` has a past, a unique key, an alias, a dependant; `good` waits."""
    if name == "blocked":
        await backend.enqueue(QUEUE, [builders.with_parent(BAD, "p", unique=KEY, ttl_ms=DAY_MS, trail=9)])
    else:
        await _with_a_past(backend, name)
    await backend.attach(QUEUE, BAD, Ref(queue=QUEUE, id="child", generation=1), OnParentFailure.FAIL)
    await backend.enqueue(QUEUE, [builders.with_parent("child", BAD), builders.new_job(GOOD)])
    merged = Unique(key="k", mode=UniqueMode.REPLACE)
    await backend.enqueue(QUEUE, [builders.new_job("alias", unique=merged)])
    leases: tuple[Lease, ...] = ()
    if name in ("active", "lapsed", "ended"):
        leases = tuple((await backend.claim(QUEUE, 2, LEASE_MS, builders.claimant())).leases)
    if name == "ended":
        await backend.settle(QUEUE, [builders.fail(lease) for lease in leases if lease.ref.id == BAD])
    if name in ("lapsed", "overdue"):
        clock.advance(2 * LEASE_MS)
    return leases


async def _with_a_past(backend: RedisBackend, name: str) -> None:
    ttl_ms = LEASE_MS if name == "overdue" else DAY_MS
    await backend.enqueue(QUEUE, [builders.new_job(BAD, unique=KEY, ttl_ms=ttl_ms, trail=9)])
    lease = (await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())).leases[0]
    await backend.note(QUEUE, [builders.log_line(lease), builders.checkpoint(lease)])
    await backend.settle(QUEUE, [builders.retry(lease, DAY_MS // 2 if name == "scheduled" else 0)])
    await renewed(backend, (lease,))  # refused, and noted


async def renewed(backend: RedisBackend, leases: tuple[Lease, ...]) -> None:
    held = [(short(lease.ref.id), lease.fence.number, short(lease.fence.nonce)) for lease in leases]
    await Calls(backend._link).ask("renew", QUEUE, held, LEASE_MS)


async def about_bad(answer: Awaitable[T]) -> T | None:
    """What is said of the damaged job may be that it cannot be read, in our own words."""
    try:
        return await answer
    except BackendUnavailable:
        raise
    except LeaseMQError as error:
        if "script" in str(error):  # what the server says of one that broke
            raise
        return None


async def lived_through(name: str, stage: Stage, backend: RedisBackend, clock: ManualClock) -> None:
    """Have everything happen to the queue that can happen to it."""
    await _looked_at(backend)
    if name == "active":
        await _settled(backend, stage.leases)
    if name == "lapsed":
        await _recovered(backend)
    else:
        await backend.advance(QUEUE, 100)
    await _claimed(backend, name)
    await _operated_on(backend)
    clock.advance(100 * DAY_MS)
    await backend.advance(QUEUE, 100)
    await backend.prune(QUEUE, 100)
    await backend.purge(QUEUE, TERMINAL, 0, 100)
    await _looked_at(backend)
    await about_bad(backend.remove(QUEUE, [BAD], force=True))
    await backend.drain(QUEUE, 100, NOT_STARTED)
    await backend.obliterate(QUEUE, force=True)
    assert list(await backend.get(QUEUE, [BAD, GOOD])) == [None, None]


async def _looked_at(backend: RedisBackend) -> None:
    await backend.counts(QUEUE)
    await backend.find(QUEUE, Filter(), None, 100)
    await backend.find(QUEUE, Filter(older_than_ms=0, reason="r"), None, 100)
    await backend.find(QUEUE, Filter(states=frozenset({State.WAITING, State.ACTIVE})), None, 100)
    await backend.outbox(QUEUE, 100)
    await backend.events(QUEUE, "", 1_000)
    await backend.claimed_by(QUEUE, "A-1")
    await backend.standing(QUEUE, GOOD)
    await about_bad(backend.get(QUEUE, [BAD]))
    await about_bad(backend.standing(QUEUE, BAD))
    await about_bad(backend.standing(QUEUE, "alias"))
    await about_bad(backend.trail(QUEUE, BAD, None, None, 100))


async def _settled(backend: RedisBackend, leases: tuple[Lease, ...]) -> None:
    """A worker goes on with what it holds, and settles it all in one call."""
    await renewed(backend, leases)
    await about_bad(backend.note(QUEUE, [builders.progress(lease) for lease in leases]))
    await about_bad(backend.settle(QUEUE, [builders.complete(lease) for lease in leases]))
    (record,) = await backend.get(QUEUE, [GOOD])
    assert record is not None
    assert record.state is State.COMPLETED


async def _recovered(backend: RedisBackend) -> None:
    """A sweep settles what it is handed; what it cannot be handed, the store ends itself."""
    leases = await backend.expired(QUEUE, 100)
    assert GOOD in {lease.ref.id for lease in leases}
    await about_bad(backend.settle(QUEUE, [builders.stall(lease) for lease in leases]))
    await backend.advance(QUEUE, 100)


async def _claimed(backend: RedisBackend, name: str) -> None:
    claimed = await backend.claim(QUEUE, 10, LEASE_MS, builders.claimant("B"))
    if name in ("waiting", "scheduled", "blocked", "lapsed", "overdue"):
        assert GOOD in {lease.ref.id for lease in claimed.leases}
    await about_bad(backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases]))


async def _operated_on(backend: RedisBackend) -> None:
    await about_bad(backend.cancel(QUEUE, [BAD]))
    await about_bad(backend.replay(QUEUE, [BAD], 5))
    await about_bad(backend.promote(QUEUE, [BAD]))
    await about_bad(backend.reprioritise(QUEUE, [BAD], 5))
    await about_bad(backend.reschedule(QUEUE, [BAD], 5))
    late = Ref(queue=QUEUE, id="late", generation=1)
    await about_bad(backend.attach(QUEUE, BAD, late, OnParentFailure.FAIL))
    child = Ref(queue=QUEUE, id=BAD, generation=1)
    await about_bad(backend.resolve(child, QUEUE, "p", passes=True))
    for job in (
        builders.new_job(BAD),
        builders.new_job("alias"),
        builders.new_job("other", unique=Unique(key="k", mode=UniqueMode.DEBOUNCE, window_ms=1)),
    ):
        await about_bad(backend.enqueue(QUEUE, [job]))


async def all_lived_through(name: str, own_server: RedisServer, step: int) -> None:
    clock = ManualClock()
    backend = backend_on(own_server, clock)
    await backend.prepare()
    leases = await staged(name, backend, clock)
    with closing(redis.Redis(port=own_server.port)) as server:
        stage = Stage(server, clock(), leases)
        for damage in damages(step):
            await asyncio.to_thread(stage.restore)
            if not await asyncio.to_thread(damage.plant, server):
                continue
            clock.step(stage.now_ms - clock())
            try:
                await lived_through(name, stage, backend, clock)
            except (AssertionError, CorruptRecord, LeaseMQError) as error:
                error.add_note(f"{name}: {damage.key!r} {damage.told}")
                raise
    await backend.close()


@pytest.mark.promise("P-99", "P-82", "P-34")
async def test_a_damaged_job_stops_nobody(own_server: RedisServer) -> None:
    await all_lived_through("lapsed", own_server, step=29)


@pytest.mark.slow
@pytest.mark.promise("P-99", "P-82", "P-34")
@pytest.mark.parametrize("name", STAGES)
async def test_a_damaged_job_stops_nobody_at_any_stage(name: str, own_server: RedisServer) -> None:
    await all_lived_through(name, own_server, step=7)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.promise("P-99", "P-82", "P-34")
@pytest.mark.parametrize("name", STAGES)
async def test_no_byte_of_a_job_stops_anybody(name: str, own_server: RedisServer) -> None:
    await all_lived_through(name, own_server, step=1)


@pytest.mark.promise("P-99")
async def test_a_leftover_in_the_lane_of_ttls_has_no_job_past_its_ttl_handed_out(server: RedisServer) -> None:
    clock = ManualClock()
    backend = RedisBackend(replace(located(server.url), clock=clock))
    await backend.prepare()
    await backend.enqueue(QUEUE, [builders.new_job(id_, ttl_ms=1_000) for id_ in ("i", "j", "k")])
    with closing(redis.Redis(port=server.port)) as raw:
        raw.zadd(PREFIX + b"ttl", {(999).to_bytes(6): 1})
    clock.advance(2_000)
    claimed = await backend.claim(QUEUE, 2, LEASE_MS, builders.claimant())
    await backend.close()

    assert claimed.leases == ()
