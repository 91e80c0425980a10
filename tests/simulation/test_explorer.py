"""Every interleaving of holders, sweeps, a canceller, a replayer and the clock, on one job in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from leasemq.backends.memory import MemoryBackend, work
from leasemq.backends.memory.shelf import Shelf
from leasemq.backends.memory.stored import Stored
from leasemq.clock import Clock
from leasemq.protocol.decide import Hopeless, Raised, Reason, Returned
from leasemq.protocol.model import Keep, Settled, Settlement, Side
from leasemq.testing.actors import (
    LEASE_MS,
    REUSABLE,
    canceller,
    clock,
    enqueuer,
    holder,
    plain_job,
    remover,
    replayer,
    sweep,
)
from leasemq.testing.explorer import Explored, Scope, explore
from leasemq.testing.laws import Fault

DONE = Returned(result=b"42")
FAILS = Raised(error=b"boom")
DIES = Hopeless(error=b"boom", reason=Reason.DEAD)
PAST_MS = LEASE_MS + 1
HOUR_MS = 3_600_000

SCOPES: dict[str, Scope] = {
    "lost replies": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, claims=2, renews=1, settles=3),
            "B": holder("B", FAILS, number=2, claims=2, settles=2),
            "sweep": sweep(number=3, settles=2),
            "time": clock(PAST_MS),
        },
    ),
    "two sweeps": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", FAILS, number=1, renews=1, settles=2),
            "B": holder("B", DONE, number=2),
            "sweep": sweep(number=3),
            "other sweep": sweep(number=6, settles=2),
            "time": clock(PAST_MS, PAST_MS),
        },
    ),
    "a clock that steps": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, renews=1),
            "B": holder("B", FAILS, number=2, renews=1),
            "sweep": sweep(number=3, rounds=2),
            "time": clock(HOUR_MS, -2 * HOUR_MS, PAST_MS),
        },
    ),
    "cancelled": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, renews=1, settles=2),
            "B": holder("B", FAILS, number=2, settles=2),
            "sweep": sweep(number=3, rounds=2),
            "canceller": canceller(2),
            "time": clock(PAST_MS),
        },
    ),
    "replayed": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DIES, number=1, writes=1, settles=2),
            "B": holder("B", DONE, number=2),
            "replayer": replayer(times=2, requests=2),
            "sweep": sweep(number=3),
            "time": clock(PAST_MS),
        },
    ),
    "poison": Scope(
        job=plain_job(max_stalls=1),
        actors={
            "A": holder("A", DONE, number=1),
            "B": holder("B", DONE, number=2),
            "replayer": replayer(times=2),
            "sweep": sweep(number=3, rounds=3),
            "time": clock(PAST_MS, PAST_MS),
        },
    ),
    "cancelled and replayed": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, settles=2),
            "B": holder("B", FAILS, number=2),
            "canceller": canceller(),
            "replayer": replayer(times=2),
            "sweep": sweep(number=3),
            "time": clock(PAST_MS),
        },
    ),
    "removed and enqueued again": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, renews=1, settles=2),
            "B": holder("B", FAILS, number=2),
            "remover": remover(plain_job()),
            "sweep": sweep(number=3),
            "time": clock(PAST_MS),
        },
    ),
    "reused": Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, writes=1, settles=3),
            "B": holder("B", DIES, number=2, settles=2),
            "producer": enqueuer(plain_job(reuse=REUSABLE, request=7), 2),
            "sweep": sweep(number=3),
            "time": clock(PAST_MS),
        },
    ),
    "nothing kept": Scope(
        job=plain_job(keep=Keep(record_ms=0, dead_ms=0)),
        actors={
            "A": holder("A", DONE, number=1, settles=2),
            "B": holder("B", DIES, number=2, settles=2),
            "producer": enqueuer(plain_job()),
            "sweep": sweep(number=3),
            "time": clock(PAST_MS),
        },
    ),
}
LARGE = {"replayed", "cancelled and replayed", "two sweeps", "cancelled", "poison", "reused"}
SIX_FAULTS = {
    Fault.REPEAT_UNRECOGNISED,
    Fault.END_CHANGED,
    Fault.IDLE_JOB_WRITTEN,
    Fault.LIVE_LEASE_TAKEN,
    Fault.CANCEL_OVERRULED,
    Fault.STRANGER_ACCEPTED,
}


class Reduced(MemoryBackend):
    """A backend whose `settle` leaves out some of the comparisons that the contract asks for."""

    def __init__(self, *, clock: Clock, leaves_out: frozenset[str]) -> None:
        super().__init__(clock=clock)
        self._out = leaves_out

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        with self.turn(queue) as shelf:
            return tuple(self._settle(shelf, settlement) for settlement in settlements)

    def _settle(self, shelf: Shelf, settlement: Settlement) -> Settled:
        job = shelf.jobs.get(settlement.job_id)
        if job is None or not job.history or self._is_other_life(job, settlement):
            return Settled.GONE
        if "the settlement's id" not in self._out and job.was_ended_by(settlement.id):
            return Settled.REPLAYED
        if not self._is_held(job, settlement):
            if settlement.side is Side.HOLDER:
                job.refuse(shelf.clock(), settlement.fence, settlement.outcome.value)
            return Settled.LOST
        runs = job.lease_until_ms is not None and job.lease_until_ms > shelf.clock()
        if "the deadline" not in self._out and settlement.side is Side.SWEEP and runs:
            return Settled.HELD
        if "the cancellation" not in self._out and job.cancel_requested and not settlement.seen_cancel:
            return Settled.CANCEL_REQUESTED
        work._apply(shelf, job, settlement)
        return Settled.APPLIED

    def _is_other_life(self, job: Stored, settlement: Settlement) -> bool:
        return "the generation" not in self._out and job.ref.generation != settlement.generation

    def _is_held(self, job: Stored, settlement: Settlement) -> bool:
        is_number = "the number" in self._out or job.fence.number == settlement.fence.number
        is_nonce = "the nonce" in self._out or job.fence.nonce == settlement.fence.nonce
        is_active = "the state" in self._out or job.state == "active"
        return is_number and is_nonce and is_active


def _reduced(*leaves_out: str) -> Callable[[Clock], MemoryBackend]:
    return lambda clock: Reduced(clock=clock, leaves_out=frozenset(leaves_out))


def _told(found: Explored) -> str:
    return "\n".join(
        f"{witness.fault}:\n  " + "\n  ".join(witness.story) for witness in found.witnesses.values()
    )


def _named(names: Sequence[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in names]


@pytest.mark.promise("P-03", "P-05", "P-10", "P-11", "P-12", "P-23", "P-50", "P-54", "P-44")
@pytest.mark.parametrize("name", _named(list(SCOPES)))
def test_no_interleaving_breaks_a_law(name: str, record_property: Callable[[str, object], None]) -> None:
    found = explore(SCOPES[name], lambda clock: MemoryBackend(clock=clock))

    print(f"{name}: {found.states:,} states, {found.steps:,} steps, {found.interleavings:,} interleavings")
    record_property("states", found.states)
    record_property("interleavings", found.interleavings)
    assert not found.witnesses, _told(found)
    assert found.states > 500


@pytest.mark.promise("P-03", "P-05", "P-10", "P-11", "P-12", "P-50")
def test_with_only_the_newest_fence_compared_all_six_faults_are_found() -> None:
    newest_fence_only = _reduced(
        "the settlement's id", "the state", "the nonce", "the deadline", "the cancellation", "the generation"
    )

    found: set[Fault] = set()
    for name in ("lost replies", "cancelled", "removed and enqueued again", "nothing kept"):
        found |= set(explore(SCOPES[name], newest_fence_only).witnesses)

    assert found >= SIX_FAULTS


@pytest.mark.promise("P-54", "P-11")
def test_with_only_the_newest_fence_compared_an_old_run_writes_into_a_replayed_one() -> None:
    found = explore(SCOPES["poison"], _reduced("the settlement's id", "the state"))

    assert Fault.OLD_RUN_WRITTEN in found.witnesses


@pytest.mark.promise("P-03", "P-05", "P-10", "P-11", "P-12", "P-50", "P-44")
@pytest.mark.parametrize(
    ("leaves_out", "name", "fault"),
    [
        ("the settlement's id", "lost replies", Fault.REPEAT_UNRECOGNISED),
        ("the number", "lost replies", None),
        ("the nonce", "removed and enqueued again", Fault.STRANGER_ACCEPTED),
        ("the state", "lost replies", Fault.END_CHANGED),
        ("the state", "a clock that steps", Fault.IDLE_JOB_WRITTEN),
        ("the deadline", "lost replies", Fault.LIVE_LEASE_TAKEN),
        ("the cancellation", "cancelled", Fault.CANCEL_OVERRULED),
        ("the generation", "reused", Fault.WRONG_ANSWER),
    ],
)
def test_each_comparison_left_out_is_found(leaves_out: str, name: str, fault: Fault | None) -> None:
    found = explore(SCOPES[name], _reduced(leaves_out))

    if fault is None:  # the nonce alone tells the attempts of one job apart: the number is for order
        assert not found.witnesses, _told(found)
    else:
        assert fault in found.witnesses, _told(found)


@pytest.mark.promise("P-11")
def test_a_settle_with_every_comparison_made_is_found_without_fault() -> None:
    found = explore(SCOPES["lost replies"], _reduced())

    assert not found.witnesses, _told(found)


@pytest.mark.promise("P-11")
@pytest.mark.parametrize("leaves_out", [(), ("the state",)], ids=["sound", "reduced"])
def test_merging_equal_states_hides_nothing(leaves_out: tuple[str, ...]) -> None:
    scope = Scope(
        job=plain_job(),
        actors={
            "A": holder("A", DONE, number=1, settles=2),
            "B": holder("B", FAILS, number=2),
            "sweep": sweep(number=3),
            "canceller": canceller(),
            "time": clock(PAST_MS),
        },
    )

    merged = explore(scope, _reduced(*leaves_out))
    apart = explore(scope, _reduced(*leaves_out), merges=False)

    assert merged.interleavings == apart.interleavings
    assert set(merged.witnesses) == set(apart.witnesses)
    assert merged.states < apart.states


@pytest.mark.promise("P-11")
def test_one_path_run_twice_tells_the_same_story() -> None:
    scope = SCOPES["lost replies"]
    first = explore(scope, _reduced("the state")).witnesses
    second = explore(scope, _reduced("the state")).witnesses

    assert first == second
