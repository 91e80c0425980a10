"""Every script under arguments that no backend sends: whatever fails has written nothing."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from leasemq.backends.redis import RedisBackend, calling
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.connecting import Link, Script
from leasemq.backends.redis.layout import short
from leasemq.backends.redis.scripts import script
from leasemq.backends.redis.settings import located
from leasemq.protocol.insight import Filter, Schedule, WorkerInfo
from leasemq.protocol.model import (
    DEAD,
    TERMINAL,
    Claimant,
    Keep,
    NewJob,
    Note,
    NoteKind,
    OnParentFailure,
    Parent,
    Ref,
    Unique,
    UniqueMode,
)
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.backends.redis.packed import packed, unpacked
from tests.servers import RedisServer

SCRIPTS = {file.stem for file in (Path(calling.__file__).parent / "lua").glob("*.lua")}
SEED = 20
CALLS = 2  # of each script
EACH = 50  # vectors per call
LONG = 100_000
JUNK: tuple[object, ...] = (
    -1, 0, 1, 7, 255, 2**31, 2**48, 2**53 + 2, 2**63, -(2**63), 0.5, -0.0, float("inf"), float("nan"),
    None, True, False, b"", b"\0", b"\0" * 8, b"a", b"p", b"mail", b"x" * 300, b"12", b"\xff\xfe",
    [], [[]], [0], [b"a"], [b"a", 1, [b"b"]], [None, None],
)  # fmt: skip

Asked = list["Vector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """A call as a backend made it, and all that was stored then."""

    script: Script
    prefix: bytes
    args: tuple[Any, ...]  # Any: bytes, text or a number
    stored: dict[bytes, bytes]  # key -> dump


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The first calls of each script that links make from now on."""
    calls: Asked = []
    times: Counter[str] = Counter()
    ask = Link._call

    async def noted(link: Link, script: Script, prefix: bytes, args: tuple[Any, ...]) -> Any:
        times[script.name] += 1
        if times[script.name] <= CALLS:
            keys = cast(list[bytes], await link.command("KEYS", "*"))
            stored = {key: cast(bytes, await link.command("DUMP", key)) for key in keys}
            calls.append(Vector(script=script, prefix=prefix, args=args, stored=stored))
        return await ask(link, script, prefix, args)

    monkeypatch.setattr(Link, "_call", noted)
    return calls


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that nobody else writes to, so that its count of changes says what a script did."""
    with RedisServer(tmp_path / "redis", appendonly=False, options={"save": ""}) as server:
        yield server


async def live(backend: RedisBackend) -> None:
    """Have the backend ask all that it can ask."""
    await _work(backend)
    await _operate(backend)
    await _read(backend)
    await backend.put_schedule(Schedule(name="nightly", queue="mail", spec=b"spec", cursor_ms=1))
    await backend.advance_schedule("nightly", 1, 2, [NewJob(id="tick", task="t", payload=b"")])
    await backend.put_schedule(Schedule(name="nightly", queue="other", spec=b"spec", cursor_ms=1))
    await backend.schedules()
    await backend.put_schedule(Schedule(name="hourly", queue="mail", spec=b"spec", cursor_ms=1))
    await backend.put_schedule(Schedule(name="hourly", queue="mail", spec=b"new", cursor_ms=1))
    await backend.delete_schedule("nightly")


async def by_others(calls: Calls) -> None:
    """Ask what a keeper's thread and listeners ask."""
    fence, nonce = ManualClock()() * 1_000, short("1" * 32)
    await calls.ask("renew", "mail", [(short(id_), fence, nonce) for id_ in ("a", "b", "c", "nobody")], 100)
    await calls.ask("interest", "mail", 100, 1, [b"\0\0\0\1" + short("a")])


async def _work(backend: RedisBackend) -> None:
    keep, reuse = Keep(result_ms=90, record_ms=50, dead_ms=90), frozenset(TERMINAL)
    plain = [NewJob(id=id_, task="t", payload=b"x", keep=keep) for id_ in ("a", "b", "c", "d", "e")]
    unique = Unique(key="k", mode=UniqueMode.REPLACE, window_ms=50)
    rare = NewJob(
        id="rare", task="t", payload=b"x", unique=unique, ttl_ms=1_000, reuse=reuse, request=7, trail=3,
        overrides=b"o", headers=b"h", priority=3, creator=Ref(queue="mail", id="a", generation=1),
    )  # fmt: skip
    child = NewJob(id="child", task="t", payload=b"x", parents=(Parent(queue="mail", id="p"),))
    await backend.enqueue("mail", [*plain, rare, replace(rare, id="merged"), child])
    await backend.enqueue("mail", [NewJob(id="later", task="t", payload=b"x", delay_ms=50)])
    who = Claimant(worker="A", incarnation="A-1", request_id="0" * 32, takes_suspect=True)
    one, two, three, *_ = (await backend.claim("mail", 4, 100, who)).leases
    await backend.claimed_by("mail", "A-1")
    fence = two.fence
    notes = [
        Note(job_id=two.ref.id, fence=fence, kind=kind, value=b"v", number=1)
        for kind in NoteKind
        if kind != "offer"
    ]
    offer = Note(job_id=two.ref.id, fence=fence, kind=NoteKind.OFFER, queue="mail", child=plain[4], number=9)
    await backend.note("mail", [*notes, offer])
    await backend.settle("mail", [builders.complete(one), builders.fail(three)])
    again = replace(who, request_id="1" * 32)
    await backend.exchange("mail", [builders.retry(two)], 1, 100, again)
    await backend.expired("mail", 5)
    await backend.advance("mail", 5)
    for entry in await backend.outbox("mail", 5):
        await backend.outbox_done("mail", [entry.id])
    await backend.attach("mail", "d", Ref(queue="mail", id="child", generation=1), OnParentFailure.FAIL)
    child_ref = Ref(queue="mail", id="child", generation=1)
    await backend.resolve(child_ref, "mail", "p", passes=True)
    await backend.announce(
        WorkerInfo(
            worker="A", incarnation="A-1", host="h", pid=1, version="1", queues=(), slots=1, running=0
        ),
        50,
    )


async def _operate(backend: RedisBackend) -> None:
    ids = ["a", "d", "later", "rare", "nobody"]
    for queue in ("mail", "without jobs"):
        await backend.pause(queue)
    await backend.queues()
    await backend.resume("mail")
    await backend.reprioritise("mail", ids, 5)
    await backend.reschedule("mail", ids, 50)
    await backend.promote("mail", ids)
    await backend.cancel("mail", ids)
    await backend.replay("mail", ["d", "rare", "later"], 9)
    await backend.remove("mail", ["nobody"], force=True)
    await backend.drain("mail", 1)
    await backend.purge("mail", frozenset(DEAD), 0, 1)
    await backend.prune("mail", 5, 10, 100)
    await backend.obliterate("elsewhere", force=False)
    await backend.retire("nobody")


async def _read(backend: RedisBackend) -> None:
    await backend.get("mail", ["a", "b", "rare", "nobody"])
    await backend.slips("mail", [("a", 0), ("a", 1)])
    await backend.find("mail", Filter(task="t", id_prefix="a", older_than_ms=0), None, 5)
    await backend.counts("mail")
    await backend.standing("mail", "b")
    await backend.events("mail", "0", 5)
    await backend.trail("mail", "rare", None, None, 5)
    await backend.workers()


def mutated(value: object, dice: random.Random) -> object:
    """Answer a value with a part of it replaced, left out, doubled or put elsewhere."""
    if not isinstance(value, list) or not value or dice.random() < 0.1:
        return dice.choice(JUNK)
    changed = list(value)
    place = dice.randrange(len(changed))
    match dice.randrange(6):
        case 0:
            del changed[place]
        case 1:
            changed.insert(place, dice.choice(JUNK))
        case 2:
            changed.append(changed[place])
        case 3:
            other = dice.randrange(len(changed))
            changed[place], changed[other] = changed[other], changed[place]
        case _:
            changed[place] = mutated(changed[place], dice)
    return changed


def drawn(args: Sequence[Any], dice: random.Random) -> tuple[Any, ...]:
    """Answer other arguments: of one blob, mostly another blob that can be read."""
    if len(args) != 1 or dice.random() < 0.02:
        return tuple(dice.choice((b"", b"\0" * 8, b"\x91\xc0", 7, "text")) for _ in range(dice.randrange(3)))
    changed = unpacked(args[0])
    for _ in range(dice.choice((1, 1, 2, 3))):
        changed = mutated(changed, dice)
    return (packed(changed),)


class Trial:
    """One call on a server, over and over with other arguments. Owner: the test."""

    def __init__(self, server: redis.Redis, vector: Vector) -> None:
        self._server = server
        self._vector = vector
        self._is_as_stored = False
        self.failures = 0
        server.script_load(vector.script.text)

    def try_out(self, args: Sequence[Any]) -> str | None:
        """Run the script; answers what was wrong, if it failed and had written."""
        script = self._vector.script
        if not self._is_as_stored:
            self._restore()
        before = self._changes()
        try:
            self._server.evalsha(script.sha, 1, self._vector.prefix, *args)
        except redis.exceptions.RedisError as error:
            self.failures += 1
            wrote = self._changes() - before
            self._is_as_stored = wrote == 0
            return (
                f"{script.name} wrote {wrote} times, then failed: {error}; {args!r:.900}" if wrote else None
            )
        self._is_as_stored = script.is_read or self._changes() == before
        return None

    def _restore(self) -> None:
        with self._server.pipeline(transaction=False) as pipeline:
            pipeline.flushdb()
            for key, dump in self._vector.stored.items():
                pipeline.restore(key, 0, dump)
            pipeline.execute()

    def _changes(self) -> int:
        return int(self._server.info("persistence")["rdb_changes_since_last_save"])


async def lived(server: RedisServer, asked: Asked) -> Asked:
    """Have a backend live on the server; answers the first calls of each script."""
    backend = RedisBackend(replace(located(server.url), clock=ManualClock()))
    await backend.prepare()
    await live(backend)
    await by_others(Calls(backend._link))
    await backend.close()
    return asked


def tried(server: RedisServer, asked: Asked, each: int, seed: int) -> list[str]:
    """Try every call out; answers what failed half-way."""
    dice, found = random.Random(seed), []
    with closing(redis.Redis(port=server.port)) as client:
        for vector in asked:
            trial = Trial(client, vector)
            told = [trial.try_out(drawn(vector.args, dice)) for _ in range(each)]
            assert trial.failures or each < EACH, f"nothing that was tried on {vector.script.name} failed"
            found += [each_told for each_told in told if each_told is not None][:1]
    return found


@pytest.mark.promise("P-04", "P-95")
def test_what_a_script_refuses_it_has_not_begun(own_server: RedisServer, asked: Asked) -> None:
    calls = asyncio.run(lived(own_server, asked))

    assert tried(own_server, calls, EACH, SEED) == []


@pytest.mark.promise("P-90", "P-95")
def test_every_script_is_tried_out(own_server: RedisServer, asked: Asked) -> None:
    calls = asyncio.run(lived(own_server, asked))

    assert {call.script.name for call in calls} == SCRIPTS


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.promise("P-04", "P-95")
def test_what_a_script_refuses_it_has_not_begun_at_length(own_server: RedisServer, asked: Asked) -> None:
    calls = asyncio.run(lived(own_server, asked))

    assert tried(own_server, calls, LONG // len(calls), SEED + 1) == []


def test_what_is_packed_for_scripts_reads_back() -> None:
    for value in (
        1,
        300,
        -5,
        2**40,
        b"",
        b"\xff" * 40,
        b"x" * 70_000,
        [b"a", [1, None, True], []],
        list(range(40)),
    ):
        assert unpacked(packed(value)) == value
    assert script("get").is_read
