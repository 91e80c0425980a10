"""A schedule that is put for another queue moves in several calls; cut short anywhere, it is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.connecting import Link, Script
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.insight import Schedule
from leasemq.protocol.model import NewJob
from leasemq.testing.manual_clock import ManualClock
from tests.servers import shared

OLD = Schedule(name="nightly", queue="mail", spec=b"old", cursor_ms=1_000)
NEW = Schedule(name="nightly", queue="reports", spec=b"new", cursor_ms=1)
STEPS = 12  # more calls than any of these operations makes


@pytest.fixture
async def backend(namespace: str) -> AsyncIterator[RedisBackend]:
    """A backend in a namespace of this test."""
    backend = RedisBackend(replace(located(shared("redis")), namespace=namespace, clock=ManualClock()))
    await backend.prepare()
    yield backend
    await backend.close()


@pytest.fixture
def cut_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let so many calls through, and none after them; -1: let all through."""
    ask, left = Link._call, [-1]

    async def cut(link: Link, script: Script, prefix: bytes, args: tuple[Any, ...]) -> Any:  # Any: a reply
        if left[0] == 0:
            raise BackendUnavailable("cut")
        left[0] -= 1
        return await ask(link, script, prefix, args)

    monkeypatch.setattr(Link, "_call", cut)

    def cut_after(calls: int) -> None:
        left[0] = calls

    return cut_after


@pytest.mark.promise("P-74", "P-70")
async def test_a_schedule_moves_with_its_cursor(backend: RedisBackend) -> None:
    await backend.put_schedule(OLD)
    await backend.put_schedule(NEW)

    assert list(await backend.schedules()) == [replace(NEW, cursor_ms=1_000)]
    answers = await backend.advance_schedule(
        "nightly", 1_000, 2_000, [NewJob(id="tick", task="t", payload=b"")]
    )
    assert answers is not None
    assert answers[0].ref.queue == "reports"


@pytest.mark.promise("P-74", "P-70", "P-98")
@pytest.mark.parametrize("calls", range(STEPS))
async def test_a_move_cut_short_leaves_one_schedule_that_ticks_once(
    backend: RedisBackend, cut_after: Callable[[int], None], calls: int
) -> None:
    await backend.put_schedule(OLD)
    cut_after(calls)
    try:
        await backend.put_schedule(NEW)
    except (BackendUnavailable, IndeterminateWrite):
        pass
    else:
        assert calls > 4
    cut_after(-1)

    told = [await backend.advance_schedule("nightly", 1_000, 2_000, []) for _ in range(3)]
    (found,) = await backend.schedules()

    assert [answer is not None for answer in told] == [True, False, False]
    assert (found.queue, found.spec) in (("mail", b"old"), ("reports", b"new"))
    assert found.cursor_ms == 2_000


@pytest.mark.promise("P-74")
@pytest.mark.parametrize("calls", range(STEPS))
async def test_a_move_that_was_cut_short_can_be_made_again_or_back(
    backend: RedisBackend, cut_after: Callable[[int], None], calls: int
) -> None:
    await backend.put_schedule(OLD)
    cut_after(calls)
    try:
        await backend.put_schedule(NEW)
    except (BackendUnavailable, IndeterminateWrite):
        assert calls < STEPS - 1
    cut_after(-1)

    for again in (NEW, OLD, NEW):
        await backend.put_schedule(again)
        assert list(await backend.schedules()) == [replace(again, cursor_ms=1_000)]
    assert await backend.delete_schedule("nightly")
    assert list(await backend.schedules()) == []


@pytest.mark.promise("P-74")
@pytest.mark.parametrize("calls", range(STEPS))
async def test_a_schedule_put_after_a_deletion_that_was_cut_short_begins_anew_or_goes_on(
    backend: RedisBackend, cut_after: Callable[[int], None], calls: int
) -> None:
    await backend.put_schedule(OLD)
    cut_after(calls)
    try:
        await backend.delete_schedule("nightly")
    except (BackendUnavailable, IndeterminateWrite):
        assert calls < STEPS - 1
    cut_after(-1)

    await backend.put_schedule(NEW)

    (found,) = await backend.schedules()
    assert (found.queue, found.spec, found.cursor_ms in (1, 1_000)) == ("reports", b"new", True)


@pytest.mark.promise("P-74", "P-70")
async def test_schedules_put_by_many_at_once_end_as_one_of_them(backend: RedisBackend) -> None:
    wanted = [replace(NEW, queue=f"q{number % 3}", spec=str(number).encode()) for number in range(6)]
    await backend.put_schedule(OLD)

    await asyncio.gather(*(backend.put_schedule(schedule) for schedule in wanted))

    (found,) = await backend.schedules()
    assert found in [replace(schedule, cursor_ms=1_000) for schedule in wanted]


@pytest.mark.promise("P-98")
@pytest.mark.parametrize("calls", range(STEPS))
@pytest.mark.parametrize("operation", ["move", "delete"])
async def test_what_is_told_not_to_have_happened_has_not(
    backend: RedisBackend, cut_after: Callable[[int], None], calls: int, operation: str
) -> None:
    await backend.put_schedule(OLD)
    cut_after(calls)
    is_refused = False
    try:
        await (backend.put_schedule(NEW) if operation == "move" else backend.delete_schedule("nightly"))
    except BackendUnavailable:
        is_refused = True
    except IndeterminateWrite:
        assert calls > 1
    cut_after(-1)

    assert not is_refused or list(await backend.schedules()) == [OLD]
