"""Twins: each backend answers every random script as memory does, call by call, and stores the same."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from leasemq.backend import Backend
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.insight import Capabilities
from leasemq.protocol.model import Claimed, Settled
from leasemq.testing.explorer import run_now
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.player import Call, Player
from leasemq.testing.scripts import CALLS, crowd, script
from leasemq.testing.twins import DUMP_EVERY, MakeBackend, compare, shortest
from tests.servers.stores import ServedStore, chosen, served_store

SEQUENCES = int(os.environ.get("LEASEMQ_TWINS", "1000"))  # in all parts together
PARTS = 8  # so that several processes share them
SERVED_DUMP_EVERY = 60  # reading all that is stored takes a server as long as all the calls before
ONE_SEED = os.environ.get("LEASEMQ_TWINS_SEED")  # plays this one alone

seeds = st.integers(0, 2**48) if ONE_SEED is None else st.just(int(ONE_SEED))


Run = Callable[[Coroutine[Any, Any, Any]], Any]  # Any: whatever the coroutine answers
Draw = Callable[[int], Sequence[Call]]
Twin = tuple[MakeBackend, Run, int]  # and after how many calls all that is stored is compared


@pytest.fixture(params=chosen(besides=["memory"]))
def backend_name(request: pytest.FixtureRequest) -> str:
    """Whom memory is compared with."""
    return str(request.param)


@pytest.fixture
def twin(backend_name: str, tmp_path: Path) -> Iterator[Twin]:
    """How a fresh backend is made, and how what is asked of it is run."""
    if backend_name == "sqlite":
        yield _sqlite_in(tmp_path), run_now, DUMP_EVERY
        return
    store = served_store(backend_name)
    kept = Kept(store)
    with asyncio.Runner() as runner:
        yield kept.emptied, runner.run, SERVED_DUMP_EVERY
        runner.run(kept.end())
    store.drop()


def _sqlite_in(folder: Path) -> MakeBackend:
    """Make backends on files of their own; the one before is deleted, so that files do not pile up."""
    numbers = count()

    def make(clock: ManualClock) -> SqliteBackend:
        number = next(numbers)
        for past in folder.glob(f"{number - 1}.db*"):
            past.unlink()
        return SqliteBackend(folder / f"{number}.db", clock=clock, inline=True, sync="off")

    return make


class Kept:
    """One backend on one server for all scripts, emptied for each: what a session has planned stays planned.

    Owner: the fixture.
    """

    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._clock = ManualClock()
        self._backend = store.open(self._now)
        self._is_fresh = True

    def emptied(self, clock: ManualClock) -> Backend:
        """Answer it, as a backend that was just made under this clock."""
        if not self._is_fresh:
            self._store.clear()
        self._is_fresh, self._clock = False, clock
        return cast("Backend", self)

    def _now(self) -> int:
        return self._clock()

    async def prepare(self) -> Capabilities:
        """See `Backend.prepare`."""
        return await self._backend.prepare()

    async def close(self) -> None:
        """Keep it open for the next script."""

    async def end(self) -> None:
        """Close it."""
        await self._backend.close()

    def __getattr__(self, name: str) -> Any:  # Any: whatever the backend has
        return getattr(self._backend, name)


def _memory(clock: ManualClock) -> MemoryBackend:
    return MemoryBackend(clock=clock)


def _check(seed: int, twin: Twin, draw: Draw) -> None:
    make, run, dump_every = twin
    drawn = draw(seed)
    try:
        run(compare(drawn, _memory, make, dump_every=dump_every))
    except AssertionError as parting:
        told = run(shortest(drawn, _memory, make)) or str(parting)
        pytest.fail(f"LEASEMQ_TWINS_SEED={seed} plays it again; memory answers first\n{told}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.promise(
    "P-01", "P-03", "P-05", "P-10", "P-11", "P-12", "P-23", "P-24", "P-30", "P-31", "P-32", "P-40", "P-41",
    "P-43", "P-44", "P-50", "P-52", "P-53", "P-54", "P-62", "P-63", "P-64", "P-92", "P-93", "P-94", "P-95",
    "P-110", "E-72",
)  # fmt: skip
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("draw", "share"), [(script, 1), (crowd, 8)])
def test_a_backend_answers_every_script_as_memory_does(part: int, draw: Draw, share: int, twin: Twin) -> None:
    @settings(
        max_examples=max(1, SEQUENCES // PARTS // share),
        deadline=None,
        phases=[Phase.generate],  # a seed cannot be shrunk; `shortest` cuts the script down instead
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(seeds)
    def play(seed: int) -> None:
        # Without fresh dice every part is given the same numbers.
        _check(seed * PARTS + part if ONE_SEED is None else seed, twin, draw)

    play()


@pytest.mark.promise("P-92", "P-93")
def test_a_few_scripts_for_every_change(twin: Twin) -> None:
    for seed in range(40):
        _check(seed, twin, script)
    for seed in range(8):
        _check(seed, twin, crowd)


@pytest.mark.promise("P-90")
def test_scripts_get_jobs_through_their_lives() -> None:
    """A script that never claims anything compares nothing: what scripts do is watched, too."""
    seen: Counter[str] = Counter()
    for seed in range(300):
        run_now(_watch(script(seed), seen))

    rare = {name: seen[name] for name in ("lease", *Settled) if seen[name] < 10}
    assert not rare, f"scripts hardly ever reach {rare}"
    assert {call for call in CALLS if not seen[f"call {call}"]} == set()


async def _watch(calls: list[Call], seen: Counter[str]) -> None:
    clock = ManualClock()
    player = Player(MemoryBackend(clock=clock), clock)
    for call in calls:
        answer = await player.play(call)
        seen[f"call {call.name}"] += 1
        if isinstance(answer, Claimed):
            seen["lease"] += len(answer.leases)
        if call.name == "settle":
            seen.update(str(settled) for settled in answer)  # type: ignore[attr-defined]  a sequence of answers


class Forgetful(MemoryBackend):
    """A twin that parts: it forgets that a queue was paused."""

    async def pause(self, queue: str) -> None:
        pass


def _forgetful(clock: ManualClock) -> Forgetful:
    return Forgetful(clock=clock)


@pytest.mark.promise("P-90")
def test_a_twin_that_parts_is_found_and_its_script_cut_down() -> None:
    parted = []
    for seed in range(20):
        drawn = script(seed)
        try:
            run_now(compare(drawn, _memory, _forgetful))
        except AssertionError:
            parted.append(run_now(shortest(drawn, _memory, _forgetful)))

    assert parted
    for told in parted:
        assert told is not None
        assert told.count("\n  pause(") == 1
        assert len(told.partition("after\n")[2].splitlines()) == 1
