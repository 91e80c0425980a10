"""Runs every interleaving of a few short scripts over one job, and judges each step.

The contract is small enough to be explored whole in small scopes: most faults of a lease protocol need
two or three actors and one job to show. The search is depth first. Each state is reached by running its
path from the beginning on a fresh backend, so that nothing of a backend need be copied; two paths that
lead to the same record, the same time and the same answers for every actor are one state, since nothing
else could tell them apart afterwards, and their continuations are walked once and counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.protocol.decide import Happened, Returned, Silent, decide
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Claimant, Claimed, Lease, NewJob
from leasemq.testing.actors import (
    JOB,
    LEASE_MS,
    QUEUE,
    Act,
    Actor,
    Cancel,
    Claim,
    Enqueue,
    MoveClock,
    ReadExpired,
    Remove,
    Renew,
    Replay,
    Script,
    Settle,
    Write,
)
from leasemq.testing.laws import Fault, Laws, balance
from leasemq.testing.manual_clock import ManualClock

DRAIN_ROUNDS = 4
DRAIN_ID = 1_000_000

T = TypeVar("T")
Path = tuple[str, ...]
MakeBackend = Callable[[Clock], Backend]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is explored: the job as it is enqueued first, and who acts on it, by name."""

    actors: Mapping[str, Actor]
    job: NewJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A path on which a law was broken: whose turn it was at each step, and what was done and answered."""

    fault: Fault
    path: Path
    story: tuple[str, ...]


@dataclass(slots=True)
class Explored:
    """What a search found. Owned by the search."""

    states: int = 0
    steps: int = 0
    interleavings: int = 0
    deepest: int = 0
    witnesses: dict[Fault, Witness] = field(default_factory=dict)


def run_now(work: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine that never waits would send
    """Run a coroutine that never waits, without a loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("the explorer needs a backend whose operations never wait")


class Walk:
    """One run of a path: a fresh backend, the actors' scripts where they stand, and the laws so far."""

    def __init__(self, scope: Scope, make_backend: MakeBackend) -> None:
        self._clock = ManualClock()
        self._backend = make_backend(self._clock)
        self._renewer = self._backend.renewer()
        run_now(self._backend.enqueue(QUEUE, [scope.job]))
        self._record = self._read()
        self._laws = Laws(now_ms=self._clock())
        self._scripts = {name: actor() for name, actor in scope.actors.items()}
        self._next: dict[str, Act] = {}
        self._heard: dict[str, list[object]] = {name: [] for name in scope.actors}
        self._told: list[tuple[str, Act, object]] = []
        for name, script in self._scripts.items():
            self._proceed(name, script, None)

    def _proceed(self, name: str, script: Script, answer: object) -> None:
        try:
            self._next[name] = script.send(answer)
        except StopIteration:
            self._next.pop(name, None)

    @property
    def enabled(self) -> list[str]:
        """Who still has something to do."""
        return sorted(self._next)

    def step(self, name: str) -> list[Fault]:
        """Give one actor its turn; answers the laws that were broken."""
        act = self._next[name]
        before = self._record
        answer = self._do(act)
        self._record = self._read()
        self._heard[name].append(answer)
        self._told.append((name, act, answer))
        faults = list(self._laws.judge(act, answer, before, self._record))
        self._proceed(name, self._scripts[name], answer)
        return faults

    def audit(self) -> list[Fault]:
        """Whether the stored counts say what is stored; apart from `step`, so that a path is audited once."""
        return list(balance(run_now(self._backend.counts(QUEUE)), self._record))

    @property
    def story(self) -> tuple[str, ...]:
        """What was done and answered at each step."""
        return tuple(f"{name}: {_short(act)} -> {_short(answer)}" for name, act, answer in self._told)

    def key(self) -> int:
        """What tells this state from others: the record, the time, and what every actor has heard."""
        heard = tuple((name, tuple(map(_frozen, answers))) for name, answers in self._heard.items())
        return hash((self._record, self._clock(), heard))

    def _read(self) -> JobRecord | None:
        (record,) = run_now(self._backend.get(QUEUE, [JOB]))
        return record

    def _do(self, act: Act) -> object:
        backend = self._backend
        match act:
            case Renew(lease=lease):
                return self._renewer.renew(QUEUE, [(JOB, lease.fence)], LEASE_MS)[0]
            case Settle(settlement=settlement):
                return run_now(backend.settle(QUEUE, [settlement]))[0]
            case Write(note=note):
                return run_now(backend.note(QUEUE, [note]))[0]
            case ReadExpired():
                return tuple(run_now(backend.expired(QUEUE, 10)))
            case MoveClock(by_ms=by_ms):
                self._clock.step(by_ms)
                return None
            case _:
                return self._do_more(act)

    def _do_more(self, act: Claim | Cancel | Replay | Remove | Enqueue) -> object:
        backend = self._backend
        match act:
            case Claim(claimant=claimant):
                return run_now(backend.claim(QUEUE, 1, LEASE_MS, claimant))
            case Cancel():
                return run_now(backend.cancel(QUEUE, [JOB]))[0]
            case Replay(request=request):
                return run_now(backend.replay(QUEUE, [JOB], request))[0]
            case Remove():
                return run_now(backend.remove(QUEUE, [JOB], force=True))[0]
            case Enqueue(job=job):
                return run_now(backend.enqueue(QUEUE, [job]))[0]
            case _:
                assert_never(act)

    def drain(self) -> list[Fault]:
        """Let a healthy sweep and a healthy worker do what is left; the job must end."""
        for turn in range(DRAIN_ROUNDS):
            self._clock.advance(LEASE_MS + 1)
            for lease in run_now(self._backend.expired(QUEUE, 10)):
                self._finish(lease, Silent(), turn)
            run_now(self._backend.advance(QUEUE, 10))
            who = Claimant(
                worker="last", incarnation="last", request_id=f"request-last-{turn}", takes_suspect=True
            )
            for lease in run_now(self._backend.claim(QUEUE, 1, LEASE_MS, who)).leases:
                self._finish(lease, Returned(result=b""), turn)
        record = self._read()
        return [] if record is None or record.state.is_terminal else [Fault.STUCK]

    def _finish(self, lease: Lease, happened: Happened, turn: int) -> None:
        settlement = decide(
            lease, happened, settlement_id=DRAIN_ID + turn, cancel_requested=lease.cancel_requested
        )
        run_now(self._backend.settle(QUEUE, [settlement]))


@dataclass(slots=True)
class Search:
    """One depth-first search of a scope. Owned by `explore`."""

    scope: Scope
    make_backend: MakeBackend
    merges: bool
    found: Explored = field(default_factory=Explored)
    ways: dict[int, int] = field(default_factory=dict)  # from a state to its ends

    def visit(self, walk: Walk, path: Path) -> int:
        """Walk everything that can follow; answers in how many ways it can."""
        key = walk.key()
        if self.merges and key in self.ways:
            return self.ways[key]
        self.found.states += 1
        self.found.deepest = max(self.found.deepest, len(path))
        names = walk.enabled
        if not names:
            self.report(walk.drain(), walk, path)
        ways = 0 if names else 1
        for turn, name in enumerate(names):
            branch = walk if turn == len(names) - 1 else self.again(path)
            ways += self.turn(branch, path, name)
        self.ways[key] = ways
        return ways

    def turn(self, walk: Walk, path: Path, name: str) -> int:
        """Give one actor its turn, judge it, and go on from there unless a law was broken."""
        self.found.steps += 1
        faults = walk.step(name) or walk.audit()
        if faults:
            self.report(faults, walk, (*path, name))
            return 1
        return self.visit(walk, (*path, name))

    def again(self, path: Path) -> Walk:
        """Run a path once more from the beginning."""
        walk = Walk(self.scope, self.make_backend)
        for name in path:
            walk.step(name)
        return walk

    def report(self, faults: Sequence[Fault], walk: Walk, path: Path) -> None:
        """Keep the first witness of the law whose breach caused the others."""
        for fault in faults[:1]:
            self.found.witnesses.setdefault(fault, Witness(fault=fault, path=path, story=walk.story))


def explore(scope: Scope, make_backend: MakeBackend, *, merges: bool = True) -> Explored:
    """Run every interleaving of the scope's actors.

    Args:
        merges: walk what follows equal states once; without it every interleaving is walked by itself.
    """
    search = Search(scope=scope, make_backend=make_backend, merges=merges)
    search.found.interleavings = search.visit(Walk(scope, make_backend), ())
    return search.found


def _frozen(answer: object) -> object:
    return tuple(answer) if isinstance(answer, list) else answer


def _short(value: object) -> str:
    """One act or answer in a few words."""
    match value:
        case Claim(claimant=claimant):
            return f"claim as {claimant.request_id}"
        case Settle(settlement=settlement):
            return f"settle {settlement.id} as {settlement.outcome} under fence {settlement.fence.number}"
        case Renew(lease=lease):
            return f"renew fence {lease.fence.number}"
        case Write(note=note):
            return f"{note.kind} under fence {note.fence.number}"
        case Claimed(leases=leases):
            return f"leases {[lease.fence.number for lease in leases]}"
        case tuple():
            return f"{len(value)} expired"
        case _:
            return str(value)
