"""The table of legal moves against what backends do: nothing happens outside it, nothing in it is idle."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import pytest

from leasemq.backends.memory import MemoryBackend
from leasemq.backends.memory.shelf import Shelf
from leasemq.backends.sqlite import SqliteBackend
from leasemq.clock import Clock
from leasemq.protocol.decide import Raised, Returned
from leasemq.protocol.insight import Event, EventKind
from leasemq.protocol.lifecycle import ARROWS, Arrow, Move, is_legal, mermaid
from leasemq.protocol.model import TERMINAL, Ref, Settled, State
from leasemq.testing.actors import LEASE_MS, canceller, clock, holder, plain_job, replayer, sweep
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.conformance.relay import carry_out
from leasemq.testing.explorer import Scope, explore, run_now
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.player import Call, Player
from leasemq.testing.scripts import script

Seen = tuple[State | None, EventKind, State]
MEANS: dict[EventKind, frozenset[Move]] = {  # which moves an event may tell of
    EventKind.ENQUEUED: frozenset({Move.ENQUEUE}),
    EventKind.PROMOTED: frozenset({Move.PROMOTE, Move.RESCHEDULE}),
    EventKind.RESCHEDULED: frozenset({Move.RESCHEDULE}),
    EventKind.REPLACED: frozenset({Move.RESCHEDULE}),  # a debounce pushes the due time
    EventKind.UNBLOCKED: frozenset({Move.UNBLOCK}),
    EventKind.CLAIMED: frozenset({Move.CLAIM}),
    EventKind.COMPLETED: frozenset({Move.COMPLETE}),
    EventKind.RETRIED: frozenset({Move.RETRY}),
    EventKind.FAILED: frozenset({Move.FAIL, Move.STALL}),
    EventKind.RELEASED: frozenset({Move.RELEASE}),
    EventKind.SNOOZED: frozenset({Move.SNOOZE}),
    EventKind.STALLED: frozenset({Move.STALL}),
    EventKind.CANCELLED: frozenset({Move.CANCEL}),
    EventKind.EXPIRED: frozenset({Move.EXPIRE}),
    EventKind.REPLAYED: frozenset({Move.REPLAY}),
}
STAYS = frozenset({EventKind.CANCEL_REQUESTED, EventKind.REPLACED, EventKind.RESCHEDULED, EventKind.PROGRESS})
NO_MOVE = frozenset({EventKind.REMOVED})


def _is_in_table(seen: Seen) -> bool:
    source, kind, target = seen
    if source is target:
        return kind in STAYS
    return any(Arrow(source, move, target) in ARROWS for move in MEANS.get(kind, frozenset()))


class Moves:
    """The changes of state that the events of some backends told of. Owned by one test."""

    def __init__(self) -> None:
        self.seen: set[Seen] = set()

    def follow(self, events: Sequence[Event], states: dict[tuple[str, str], State | None]) -> None:
        """Take in events in their order; `states` is where each job stands so far."""
        for event in events:
            job = event.ref.queue, event.ref.id
            if event.kind not in NO_MOVE:
                assert event.state is not None
                self.seen.add((states.get(job), event.kind, event.state))
            states[job] = event.state


class Watched(MemoryBackend):
    """A memory backend that shows every event to `moves`."""

    def __init__(self, *, clock: Clock, moves: Moves) -> None:
        super().__init__(clock=clock)
        self._moves = moves
        self._states: dict[tuple[str, str], State | None] = {}

    @contextmanager
    def turn(self, queue: str) -> Iterator[Shelf]:
        with super().turn(queue) as shelf:
            told = shelf.event_number
            yield shelf
            news = list(islice(reversed(shelf.events), shelf.event_number - told))[::-1]
            self._moves.follow(news, self._states)


@pytest.fixture
async def queue() -> QueueUnderTest:
    """A queue in memory."""
    clock = ManualClock()
    return QueueUnderTest(backend=MemoryBackend(clock=clock), clock=clock)


@pytest.fixture
async def file_queue(tmp_path: Path) -> AsyncIterator[QueueUnderTest]:
    """A queue in a file, whose bytes can be broken."""
    clock = ManualClock()
    backend = SqliteBackend(tmp_path / "jobs.db", clock=clock, sync="normal")
    await backend.prepare()
    yield QueueUnderTest(backend=backend, clock=clock)
    await backend.close()


async def _seen(queue: QueueUnderTest) -> set[Seen]:
    moves = Moves()
    moves.follow(await queue.events(), {})
    return moves.seen


# ---- soundness: nothing happens outside the table


@pytest.mark.promise("P-05", "P-62")
def test_no_random_script_leaves_the_table() -> None:
    moves = Moves()
    for seed in range(300):
        clock = ManualClock()
        player = Player(Watched(clock=clock, moves=moves), clock)
        run_now(_play(player, script(seed)))

    assert not [seen for seen in moves.seen if not _is_in_table(seen)]
    assert len(moves.seen) > 30


async def _play(player: Player, calls: list[Call]) -> None:
    for call in calls:
        await player.play(call)


def _watched(moves: Moves) -> Callable[[Clock], Watched]:
    return lambda clock: Watched(clock=clock, moves=moves)


@pytest.mark.promise("P-05", "P-50", "P-54")
def test_no_interleaving_leaves_the_table() -> None:
    moves = Moves()
    scope = Scope(
        job=plain_job(max_stalls=1),
        actors={
            "A": holder("A", Returned(result=b"42"), number=1),
            "B": holder("B", Raised(error=b"boom"), number=2),
            "canceller": canceller(),
            "replayer": replayer(),
            "sweep": sweep(number=3),
            "time": clock(LEASE_MS + 1),
        },
    )

    explore(scope, _watched(moves))

    assert not [seen for seen in moves.seen if not _is_in_table(seen)]


# ---- coverage: every move of the table is made


async def _enqueue_waiting(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")


async def _enqueue_scheduled(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=5)


async def _enqueue_blocked(queue: QueueUnderTest) -> None:
    await queue.put(builders.with_parent("j", "p"))


async def _promote(queue: QueueUnderTest) -> None:
    await _enqueue_scheduled(queue)
    queue.clock.advance(5)
    await queue.backend.advance(queue.name, ALL)


async def _put_off(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    await queue.backend.reschedule(queue.name, ["j"], 5)


async def _call_in(queue: QueueUnderTest) -> None:
    await _enqueue_scheduled(queue)
    await queue.backend.reschedule(queue.name, ["j"], 0)


async def _unblock(queue: QueueUnderTest) -> None:
    await queue.finish("p")
    await _enqueue_blocked(queue)
    await carry_out(queue.backend, [queue.name])


async def _unblock_later(queue: QueueUnderTest) -> None:
    await queue.finish("p")
    await queue.put(builders.with_parent("j", "p", delay_ms=5))
    await carry_out(queue.backend, [queue.name])


async def _block_for_ever(queue: QueueUnderTest) -> None:
    await _enqueue_blocked(queue)
    await carry_out(queue.backend, [queue.name])


async def _claim(queue: QueueUnderTest) -> None:
    await queue.start()


def _settled(write: str, delay_ms: int | None = None) -> Callable[[QueueUnderTest], Awaitable[None]]:
    async def scenario(queue: QueueUnderTest) -> None:
        lease = await queue.start()
        make = builders.SETTLEMENTS[write]
        settlement = make(lease) if delay_ms is None else make(lease, delay_ms)  # type: ignore[call-arg]  by write
        assert await queue.settle(settlement) is Settled.APPLIED

    return scenario


async def _release_unfit(queue: QueueUnderTest) -> None:
    assert await queue.settle(builders.release_unfit(await queue.start())) is Settled.APPLIED


def _stalled(max_stalls: int) -> Callable[[QueueUnderTest], Awaitable[None]]:
    async def scenario(queue: QueueUnderTest) -> None:
        await queue.enqueue("j", max_stalls=max_stalls)
        await queue.stall_once()

    return scenario


async def _cancel(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    await queue.cancel()


async def _cancel_scheduled(queue: QueueUnderTest) -> None:
    await _enqueue_scheduled(queue)
    await queue.cancel()


async def _cancel_blocked(queue: QueueUnderTest) -> None:
    await _enqueue_blocked(queue)
    await queue.cancel()


def _expired(**fields: object) -> Callable[[QueueUnderTest], Awaitable[None]]:
    async def scenario(queue: QueueUnderTest) -> None:
        await queue.enqueue("j", ttl_ms=5, **fields)
        queue.clock.advance(6)
        await queue.backend.advance(queue.name, ALL)

    return scenario


def _replayed(
    end: Callable[[QueueUnderTest], Awaitable[None]],
) -> Callable[[QueueUnderTest], Awaitable[None]]:
    async def scenario(queue: QueueUnderTest) -> None:
        await end(queue)
        await queue.replay()

    return scenario


async def _replay_blocked(queue: QueueUnderTest, end: Callable[[], Awaitable[object]]) -> None:
    await queue.enqueue("j", parents=(*BLOCKED_BY, *builders.with_parent("j", "q").parents), ttl_ms=HOUR_MS)
    await end()
    await queue.replay()


async def _replay_failed_blocked(queue: QueueUnderTest) -> None:
    child = Ref(queue=queue.name, id="j", generation=1)
    await _replay_blocked(queue, lambda: queue.backend.resolve(child, queue.name, "p", passes=False))


async def _replay_cancelled_blocked(queue: QueueUnderTest) -> None:
    await _replay_blocked(queue, queue.cancel)


async def _replay_expired_blocked(queue: QueueUnderTest) -> None:
    async def expire() -> None:
        queue.clock.advance(HOUR_MS)
        await queue.backend.advance(queue.name, 1)

    await _replay_blocked(queue, expire)


async def _break(queue: QueueUnderTest, path: Path) -> None:
    await queue.enqueue("j")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM leasemq_body")
    await queue.claim()


S, W, A, B = State.SCHEDULED, State.WAITING, State.ACTIVE, State.BLOCKED
DONE, FAILED, CANCELLED, EXPIRED = State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED
BLOCKED_BY = builders.with_parent("j", "p").parents
MET_UNREADABLE = Arrow(W, Move.FAIL, FAILED)  # shown on a file: what memory stores cannot be broken
SCENARIOS: dict[Arrow, Callable[[QueueUnderTest], Awaitable[None]]] = {
    Arrow(None, Move.ENQUEUE, W): _enqueue_waiting,
    Arrow(None, Move.ENQUEUE, S): _enqueue_scheduled,
    Arrow(None, Move.ENQUEUE, B): _enqueue_blocked,
    Arrow(S, Move.PROMOTE, W): _promote,
    Arrow(W, Move.RESCHEDULE, S): _put_off,
    Arrow(S, Move.RESCHEDULE, W): _call_in,
    Arrow(B, Move.UNBLOCK, W): _unblock,
    Arrow(B, Move.UNBLOCK, S): _unblock_later,
    Arrow(W, Move.CLAIM, A): _claim,
    Arrow(A, Move.COMPLETE, DONE): _settled("complete"),
    Arrow(A, Move.RETRY, S): _settled("retry", 5),
    Arrow(A, Move.RETRY, W): _settled("retry", 0),
    Arrow(A, Move.FAIL, FAILED): _settled("fail"),
    Arrow(A, Move.RELEASE, W): _settled("release"),
    Arrow(A, Move.RELEASE, S): _release_unfit,
    Arrow(A, Move.SNOOZE, S): _settled("snooze", 5),
    Arrow(A, Move.SNOOZE, W): _settled("snooze", 0),
    Arrow(A, Move.STALL, W): _stalled(1),
    Arrow(A, Move.STALL, FAILED): _stalled(0),
    Arrow(A, Move.CANCEL, CANCELLED): _settled("acknowledge_cancel"),
    Arrow(W, Move.CANCEL, CANCELLED): _cancel,
    Arrow(S, Move.CANCEL, CANCELLED): _cancel_scheduled,
    Arrow(B, Move.CANCEL, CANCELLED): _cancel_blocked,
    Arrow(W, Move.EXPIRE, EXPIRED): _expired(),
    Arrow(S, Move.EXPIRE, EXPIRED): _expired(delay_ms=50),
    Arrow(B, Move.EXPIRE, EXPIRED): _expired(parents=BLOCKED_BY),
    Arrow(B, Move.FAIL, FAILED): _block_for_ever,
    Arrow(FAILED, Move.REPLAY, W): _replayed(_settled("fail")),
    Arrow(EXPIRED, Move.REPLAY, W): _replayed(_expired()),
    Arrow(CANCELLED, Move.REPLAY, W): _replayed(_cancel),
    Arrow(FAILED, Move.REPLAY, B): _replay_failed_blocked,
    Arrow(EXPIRED, Move.REPLAY, B): _replay_expired_blocked,
    Arrow(CANCELLED, Move.REPLAY, B): _replay_cancelled_blocked,
}


def _name(arrow: Arrow) -> str:
    return f"{arrow.source or 'nothing'} {arrow.move} {arrow.target}"


def _made(seen: set[Seen], arrow: Arrow) -> bool:
    return any(
        (source, target) == (arrow.source, arrow.target) and arrow.move in MEANS[kind]
        for source, kind, target in seen
        if kind in MEANS
    )


@pytest.mark.promise("P-05", "P-62")
@pytest.mark.parametrize("arrow", SCENARIOS, ids=_name)
async def test_every_move_of_the_table_is_made(queue: QueueUnderTest, arrow: Arrow) -> None:
    await SCENARIOS[arrow](queue)

    seen = await _seen(queue)
    assert _made(seen, arrow), seen
    assert all(map(_is_in_table, seen)), seen


@pytest.mark.promise("P-99")
async def test_a_record_that_cannot_be_read_fails_when_a_claim_meets_it(
    file_queue: QueueUnderTest, tmp_path: Path
) -> None:
    await _break(file_queue, tmp_path / "jobs.db")

    assert _made(await _seen(file_queue), MET_UNREADABLE)


def test_the_table_has_no_move_without_a_scenario() -> None:
    assert {*SCENARIOS, MET_UNREADABLE} == set(ARROWS)
    assert len(ARROWS) == len(set(ARROWS))


@pytest.mark.promise("P-05")
def test_the_table_lets_no_job_leave_its_end_but_by_replay() -> None:
    leaving = {arrow.move for arrow in ARROWS if arrow.source in TERMINAL}

    assert leaving == {Move.REPLAY}
    assert not [arrow for arrow in ARROWS if arrow.source is State.COMPLETED]


def test_every_state_can_be_reached_and_every_job_can_end() -> None:
    assert {arrow.target for arrow in ARROWS} == set(State)
    assert {arrow.source for arrow in ARROWS if arrow.target in TERMINAL} == {A, W, S, B}


def test_a_move_is_legal_exactly_where_the_table_has_an_arrow() -> None:
    pairs = {(arrow.source, arrow.target) for arrow in ARROWS}

    for source in (None, *State):
        for target in State:
            assert is_legal(source, target) == ((source, target) in pairs)


def test_the_diagram_draws_every_arrow() -> None:
    drawn = mermaid()

    for arrow in ARROWS:
        line = next(
            line
            for line in drawn.splitlines()
            if line.strip().startswith(f"{arrow.source or '[*]'} --> {arrow.target}:")
        )
        assert arrow.move in line
