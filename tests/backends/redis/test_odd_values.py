"""Ids and numbers that no job can have are answered as memory answers them, and break no script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import replace

import pytest

from leasemq.backend import Backend
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.settings import located
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import TERMINAL, OnParentFailure, Ref
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.servers import shared

IDS = ("", "x" * 3_000, "a\nb", "\ud800", "é")
HUGE = 2**70


@pytest.fixture
async def twins(namespace: str) -> AsyncIterator[Sequence[Backend]]:
    """Memory and Redis with one job each."""
    clock = ManualClock()
    settings = replace(located(shared("redis")), namespace=namespace, clock=clock)
    both: tuple[Backend, ...] = (MemoryBackend(clock=clock), RedisBackend(settings))
    for backend in both:
        await backend.prepare()
        await backend.enqueue("mail", [builders.new_job("j")])
    yield both
    for backend in both:
        await backend.close()


async def _asked(calls: Sequence[Awaitable[object]]) -> list[object]:
    return [await call for call in calls]


def _about(backend: Backend, id_: str) -> list[Awaitable[object]]:
    ref = Ref(queue="mail", id=id_, generation=1)
    return [
        backend.get("mail", [id_]),
        backend.standing("mail", id_),
        backend.trail("mail", id_, None, None, 5),
        backend.slips("mail", [(id_, 0)]),
        backend.find("mail", Filter(id_prefix=id_ or "?"), None, 5),
        backend.cancel("mail", [id_]),
        backend.promote("mail", [id_]),
        backend.replay("mail", [id_], 5),
        backend.remove("mail", [id_], force=True),
        backend.attach("mail", id_, ref, OnParentFailure.FAIL),
        backend.resolve(ref, "mail", id_, passes=True),
    ]


@pytest.mark.promise("P-42", "P-90")
@pytest.mark.parametrize("id_", IDS, ids=ascii)
async def test_an_id_that_no_job_can_have_is_unknown(twins: Sequence[Backend], id_: str) -> None:
    memory, on_redis = [await _asked(_about(backend, id_)) for backend in twins]

    assert on_redis == memory


@pytest.mark.promise("P-90", "P-53")
async def test_numbers_out_of_every_range_mean_what_they_say(twins: Sequence[Backend]) -> None:
    def asked(backend: Backend) -> list[Awaitable[object]]:
        return [
            backend.cancel("mail", ["j"], -1),
            backend.cancel("mail", ["j"], HUGE),
            backend.trail("mail", "j", -1, None, 5),
            backend.slips("mail", [("j", -1), ("j", HUGE)]),
            backend.find("mail", Filter(older_than_ms=HUGE), None, 5),
            backend.find("mail", Filter(newer_than_ms=-5), None, 5),
            backend.find("mail", Filter(), None, -2),
            backend.drain("mail", -5),
            backend.purge("mail", TERMINAL, HUGE, 5),
            backend.purge("mail", TERMINAL, -5, -5),
            backend.prune("mail", -3),
            backend.prune("mail", 5, HUGE, HUGE),
            backend.outbox("mail", -1),
            backend.outbox_done("mail", [-1, HUGE]),
            backend.reschedule("mail", ["j"], -5),
            backend.reschedule("mail", ["j"], 0, -5),
            backend.get("mail", ["j"]),
        ]

    memory, on_redis = [await _asked(asked(backend)) for backend in twins]

    assert on_redis == memory
