"""Values on every route and in every place that a job has for them: equal in value and type, or refused.

Run by a real worker in virtual time, on each backend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

import leasemq.backends.sqlite  # noqa: F401  reads files when first imported, which must not be in a loop
from leasemq import App, Ctx, Job, JobFailed, Retry, State
from leasemq.errors import PayloadRejected, PayloadTooLarge
from leasemq.testing import Harness
from tests.protocol.values import Colour, Line, Order, Pair, Row, Size, same

pytestmark = pytest.mark.local

PLAIN: list[Any] = [
    [[], {}, [[]], 2**60, 1234567890123456, 0.1234567890123456789, None, "é", {"a": []}],
    [9007199254740993, 130775545883395173, 2**63 - 1, -(2**63), 0, -1, True, False],
    [1.0, 0.30000000000000004, -0.0, 0.0, 1e300, 5e-324, 1.7976931348623157e308, 1e22, 123456789.0],
    {"$set": 1, "a.b": 2, "__proto__": 3, "": 4, "é": 5, "a\x00b": 6, "true": 7, "0": 8},
    [
        "",
        "\x00",
        "a\x00b",
        "\u2028\u2029",
        "\U0001f40d",
        "\U0001f4a5",
        "caf\u00e9",
        "cafe\u0301",
        "\\u0000",
        "'; DROP TABLE x; --",
        "\r\n\t\x7f",
    ],
    ["null", "NaN", "1", "2026-01-01T00:00:00Z", "{}", "[]", "\ufeff", "\x1b[31m", " ", "%s {0} {{}}"],
    {"z": 1, "a": {"y": [1, [2, [3, [4, {}]]]], "b": None}, "m": [{"k": []}, {}, [None, [None]]]},
    ["x" * 30_000],
]


@dataclass
class Everything:
    """One value of each kind that a declared type lets through."""

    uuid: UUID = field(default_factory=lambda: UUID("12345678-1234-5678-1234-567812345678"))
    number: Decimal = Decimal("-0.1000000000000000000000000000000001E+5")
    instant: datetime = datetime(
        2026, 10, 25, 2, 30, 0, 123_456, tzinfo=timezone(timedelta(hours=5, minutes=45))
    )
    naive: datetime = datetime(2026, 1, 1, 9, 0, 0, 5)  # noqa: DTZ001  naive on purpose
    day: date = date(1, 1, 1)
    hour: time = time(23, 59, 59, 999_999, tzinfo=UTC)
    span: timedelta = timedelta(days=-3, microseconds=7)
    raw: bytes = bytes(range(256))
    colour: Colour = Colour.RED
    size: Size = Size.SMALL
    order: Order = field(default_factory=lambda: Order(2**63 - 1, lines=[Line("a", tags=["x"])]))
    pair: Pair = field(default_factory=lambda: Pair(1, "x"))
    row: Row = field(default_factory=lambda: Row(name="n", age=3))
    pieces: tuple[int, str, None] = (1, "", None)
    members: frozenset[str] = frozenset({"one, since repr() tells the order"})
    numbers: dict[int, set[UUID]] = field(default_factory=lambda: {-1: {UUID(int=0)}, 2**62: set()})


class Unpaid(Exception):
    """An error with values."""

    def __init__(self, invoice: UUID, amount: Decimal, due: datetime, everything: Everything) -> None:
        super().__init__("unpaid")
        self.invoice = invoice
        self.amount = amount
        self.due = due
        self.everything = everything


@pytest_asyncio.fixture
async def jobs(app: App, backend_name: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness around the app, on the backend of the test."""
    async with Harness(app, sqlite=None if backend_name == "memory" else tmp_path / "h.db") as jobs:
        yield jobs


Drive = Callable[[App, Harness, Job[Any]], Awaitable[None]]


async def _straight(app: App, jobs: Harness, job: Job[Any]) -> None:
    await jobs.run_until_idle()


async def _in_time(app: App, jobs: Harness, job: Job[Any]) -> None:
    await jobs.advance(minutes=5)


async def _after_a_crash(app: App, jobs: Harness, job: Job[Any]) -> None:
    jobs.crash_worker()
    assert (await jobs.advance(minutes=5)).crashes == 1


async def _promoted(app: App, jobs: Harness, job: Job[Any]) -> None:
    await app.queue().promote(job.id)
    await jobs.run_until_idle()


async def _replayed(app: App, jobs: Harness, job: Job[Any]) -> None:
    await jobs.run_until_idle()
    assert await job.state() is State.FAILED
    await app.queue().replay(job.id)
    await jobs.run_until_idle()


ROUTES: dict[str, tuple[Drive, dict[str, Any], bool]] = {
    "straight": (_straight, {}, False),
    "after a retry": (_in_time, {"retry": Retry(1)}, True),
    "after a stall": (_after_a_crash, {}, False),
    "when it was due": (_in_time, {"delay": 60}, False),
    "promoted": (_promoted, {"delay": 60}, False),
    "replayed": (_replayed, {}, True),
}


@pytest.mark.promise("P-100", "A-2", "B31", "B33", "E-56")
@pytest.mark.parametrize("route", ROUTES)
async def test_plain_data_is_the_same_in_every_place_on_every_route(
    app: App, jobs: Harness, route: str
) -> None:
    drive, options, first_fails = ROUTES[route]
    seen: list[Any] = []
    left: list[Any] = []
    followed: list[Any] = []

    @app.task(name="t", history=10)
    async def t(ctx: Ctx, value: Any, rest: Any = None) -> Any:
        seen.append([value, rest])
        left.append(ctx.last_checkpoint)
        await ctx.checkpoint(value)
        await ctx.progress(1, data=value)
        await ctx.enqueue(follow.call(value))
        if first_fails and len(seen) == 1:
            raise RuntimeError("the first attempt fails")
        return value

    @app.task(name="follow")
    async def follow(value: Any) -> None:
        followed.append(value)

    job = await t.options(**options).enqueue(PLAIN, rest=PLAIN[0])
    await drive(app, jobs, job)

    assert same(await job.result(timeout=0), PLAIN)
    is_second = route in ("after a retry", "after a stall", "replayed")
    assert len(seen) == 1 + is_second
    assert same(seen, [[PLAIN, PLAIN[0]]] * len(seen))
    if route in ("after a retry", "after a stall"):
        assert same(left, [None, PLAIN])
    progress = await job.progress()
    assert progress is not None
    assert same(progress.data, PLAIN)
    told = [entry.progress.data for entry in (await job.history()).entries if entry.progress is not None]
    assert told
    assert same(told, [PLAIN] * len(told))
    assert followed
    assert same(followed, [PLAIN] * len(followed))


@pytest.mark.promise("P-100", "A-39", "E-1", "E-2", "E-56")
@pytest.mark.parametrize("route", ROUTES)
async def test_values_of_declared_types_are_the_same_in_handler_and_result_on_every_route(
    app: App, jobs: Harness, route: str
) -> None:
    drive, options, first_fails = ROUTES[route]
    seen: list[tuple[Any, ...]] = []

    @app.task(name="t")
    async def t(one: Everything, *more: Decimal | None, at: datetime, by: list[UUID]) -> Everything:
        seen.append((one, more, at, by))
        if first_fails and len(seen) == 1:
            raise RuntimeError("the first attempt fails")
        return one

    given = Everything()
    call = (given, (Decimal("1.10"), None), given.instant, [given.uuid])
    job = await t.options(**options).enqueue(given, *call[1], at=call[2], by=call[3])
    await drive(app, jobs, job)

    for value in (await job.result(timeout=0), *(first for first, *_ in seen)):
        assert repr(value) == repr(given)
        assert value == given
    assert [repr(one) for one in seen] == [repr(call)] * len(seen)


@pytest.mark.promise("P-60", "P-100", "A-39", "E-2")
async def test_values_of_a_declared_error_reach_who_waits(app: App, jobs: Harness) -> None:
    everything = Everything()

    @app.task(name="t", raises=[Unpaid])
    async def t() -> None:
        raise Unpaid(everything.uuid, everything.number, everything.instant, everything)

    job = await t.enqueue()
    await jobs.run_until_idle()

    with pytest.raises(JobFailed) as failed:
        await job.result(timeout=0)
    error = failed.value.error
    assert type(error) is Unpaid
    given = (everything.uuid, everything.number, everything.instant, everything)
    assert repr((error.invoice, error.amount, error.due, error.everything)) == repr(given)


with open(__file__, encoding="utf-8") as _open_file:
    REFUSED: dict[str, Any] = {
        "NaN": float("nan"),
        "inf": float("inf"),
        "-inf": float("-inf"),
        "10**30": 10**30,
        "object": object(),
        "set": {1},
        "lambda": lambda: None,
        "open file": _open_file,
        "surrogate": "\ud800",
        "int key": {1: 2},
        "tuple": (1, 2),
        "bytes": b"x",
        "nested": [{"a": [float("nan")]}],
    }


@pytest.mark.promise("P-100", "P-26", "A-18", "B31", "B33", "E-56")
async def test_what_would_not_arrive_is_refused_in_every_place(app: App, jobs: Harness) -> None:
    refused: list[str] = []

    @app.task(name="t", retry=Retry(3))
    async def t(ctx: Ctx, name: str, value: Any = None) -> Any:
        for write in (
            ctx.checkpoint(REFUSED[name]),
            ctx.progress(1, data=REFUSED[name]),
        ):
            try:
                await write
            except PayloadRejected:
                refused.append(name)
        return REFUSED[name]

    for name, value in REFUSED.items():
        with pytest.raises(PayloadRejected, match="value"):
            await t.enqueue(name, value)
        with pytest.raises(PayloadRejected, match="value"):
            await t.enqueue_many([("a good one",), (name, value)])
    assert await app.queues() == ()

    enqueued = await t.enqueue_many([(name,) for name in REFUSED])
    ran = await jobs.run_until_idle()
    assert ran.outcomes == {"failed": len(REFUSED)}
    assert sorted(refused) == sorted([*REFUSED] * 2)
    for job in enqueued:
        with pytest.raises(JobFailed) as failed:
            await job.result(timeout=0)
        assert failed.value.error_type.endswith("ResultNotSerializable")
        record = await job.record()
        assert (record.attempts, record.checkpoint, record.progress) == (1, None, None)
    assert len(await jobs.dead()) == len(REFUSED)


@pytest.mark.promise("P-101", "A-40", "B34", "E-57")
async def test_what_is_too_large_is_refused_in_every_place_with_size_and_limit(
    url: str, backend_name: str, tmp_path: Path
) -> None:
    app = App(url, payload_limit=262_144, result_limit=1_048_576)
    told: dict[str, str] = {}

    @app.task(name="t", retry=Retry(3))
    async def t(ctx: Ctx, text: str = "", size: int = 0) -> str:
        for name, write in (
            ("checkpoint", ctx.checkpoint("x" * 1_048_577)),
            ("progress", ctx.progress(1, data="x" * 65_537)),
        ):
            try:
                await write
            except PayloadTooLarge as refusal:
                told[name] = str(refusal)
        try:
            await ctx.enqueue(t.call("x" * 262_145))
        except PayloadTooLarge as refusal:
            told["child"] = str(refusal)
        return "x" * size

    file = None if backend_name == "memory" else tmp_path / "h.db"
    async with Harness(app, sqlite=file) as jobs:
        empty = len(t.call("").job.payload)
        assert len(t.call("x" * (262_144 - empty)).job.payload) == 262_144
        too_long = "x" * (262_145 - empty)
        for enqueueing in (t.enqueue(too_long), t.enqueue_many([("ok",), (too_long,)])):
            with pytest.raises(PayloadTooLarge, match=r"262145 bytes encoded; the limit is 262144"):
                await enqueueing
        assert await app.queues() == ()

        largest = await t.enqueue("x" * (262_144 - empty))
        too_large = await t.enqueue(size=17 * 1_048_576)
        assert (await jobs.run_until_idle()).outcomes == {"completed": 1, "failed": 1}
        assert await largest.result(timeout=0) == ""
        with pytest.raises(JobFailed, match="1048576") as failed:
            await too_large.result(timeout=0)
        assert failed.value.error_type.endswith("ResultTooLarge")
        record = await too_large.record()
        assert record.attempts == 1
        assert record.error is not None
        assert len(record.error) <= 65_536
    assert told.keys() == {"checkpoint", "progress", "child"}
    assert "1048576" in told["checkpoint"]
    assert "65536" in told["progress"]
    assert "262144" in told["child"]
