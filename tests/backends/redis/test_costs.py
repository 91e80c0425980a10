"""What a job costs the server: bytes while it waits, and commands over its life."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest
import redis

from leasemq.backends.redis import RedisBackend, from_url
from leasemq.protocol.model import Claimant, NewJob, Settled
from leasemq.testing.conformance import builders
from tests.servers import RedisServer

QUEUE = "costs"
JOBS = 10_000
AT_ONCE = 100
MOST_BYTES = 350  # per waiting job with a UUID and a text of 100 as it is packed (149), events not counted
MOST_COMMANDS = 1  # over a job's life, in batches


@pytest.fixture
async def backend(server: RedisServer) -> AsyncIterator[RedisBackend]:
    backend = from_url(server.url)
    await backend.prepare()
    yield backend
    await backend.close()


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with closing(redis.Redis(port=server.port)) as client:
        yield client


async def _enqueue(backend: RedisBackend, jobs: int) -> None:
    for _ in range(jobs // AT_ONCE):
        batch = [NewJob(id=str(uuid.uuid4()), task="send", payload=b"x" * 149) for _ in range(AT_ONCE)]
        await backend.enqueue(QUEUE, batch)


async def _complete(backend: RedisBackend, jobs: int) -> None:
    for _ in range(jobs // AT_ONCE):
        claimant = Claimant(worker="w", incarnation=uuid.uuid4().hex, request_id=uuid.uuid4().hex)
        claimed = await backend.claim(QUEUE, AT_ONCE, 30_000, claimant)
        answers = await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases])
        assert answers == (Settled.APPLIED,) * AT_ONCE


def _bytes(client: redis.Redis) -> int:
    events = client.memory_usage(f"leasemq:{{{QUEUE}}}:events", samples=0)
    return int(client.info("memory")["used_memory"]) - int(events or 0)


def _commands(client: redis.Redis) -> int:
    return sum(int(told["calls"]) for told in client.info("commandstats").values())


@pytest.mark.promise("P-95")
async def test_a_waiting_job_takes_few_bytes(backend: RedisBackend, client: redis.Redis) -> None:
    await _enqueue(backend, AT_ONCE)  # what a queue costs once
    before = await asyncio.to_thread(_bytes, client)

    await _enqueue(backend, JOBS)

    assert (await asyncio.to_thread(_bytes, client) - before) / JOBS <= MOST_BYTES


@pytest.mark.promise("P-95")
async def test_a_job_takes_few_commands_over_its_life(backend: RedisBackend, client: redis.Redis) -> None:
    before = await asyncio.to_thread(_commands, client)

    await _enqueue(backend, 1_000)
    await _complete(backend, 1_000)

    assert (await asyncio.to_thread(_commands, client) - before) / 1_000 <= MOST_COMMANDS


@pytest.mark.promise("P-34", "P-30")
async def test_a_claim_passes_over_a_flood_of_overdue_jobs_without_reading_them(
    backend: RedisBackend, client: redis.Redis
) -> None:
    overdue = [NewJob(id=f"old{number}", task="send", payload=b"", ttl_ms=0) for number in range(1_000)]
    await backend.enqueue(QUEUE, overdue)
    await backend.enqueue(QUEUE, [NewJob(id="fresh", task="send", payload=b"")])
    before = await asyncio.to_thread(_commands, client)

    claimant = Claimant(worker="w", incarnation="i", request_id=uuid.uuid4().hex)
    claimed = await backend.claim(QUEUE, 1, 30_000, claimant)

    assert [lease.ref.id for lease in claimed.leases] == ["fresh"]
    assert await asyncio.to_thread(_commands, client) - before < 150


@pytest.mark.promise("P-83")
async def test_asking_an_empty_queue_for_jobs_takes_four_commands(
    backend: RedisBackend, client: redis.Redis
) -> None:
    await _enqueue(backend, AT_ONCE)
    await _complete(backend, AT_ONCE)
    claimant = Claimant(worker="w", incarnation="i", request_id=uuid.uuid4().hex)
    before = await asyncio.to_thread(_commands, client)

    claimed = await backend.claim(QUEUE, 1, 30_000, claimant)

    assert claimed.leases == ()
    own = 1  # that of the count itself
    assert await asyncio.to_thread(_commands, client) - before - own <= 4
