"""Sweeps: recovery by anybody, bounded steps, no kind of work stops another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from leasemq.backend import Backend
from leasemq.backends.memory import MemoryBackend
from leasemq.errors import BackendUnavailable, CorruptRecord, InvalidSetting
from leasemq.events import SweepFailed
from leasemq.maintenance import Chore, Sweep
from leasemq.protocol.model import Claimant, Keep, NewJob, Outcome, Settled, Settlement, State
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.manual_clock import ManualClock

QUEUE = "q"
LEASE_MS = 1_000


@pytest.fixture
def clock() -> ManualClock:
    """The store's clock and the sweep's."""
    return ManualClock()


@pytest.fixture
def backend(backend_name: str, clock: ManualClock, tmp_path: Path) -> Backend:
    """An open backend."""
    if backend_name == "memory":
        return MemoryBackend(clock=clock)
    from leasemq.backends.sqlite import SqliteBackend

    return SqliteBackend(tmp_path / "jobs.db", clock=clock, inline=True, sync="normal")


async def enqueue(backend: Backend, count: int, prefix: str = "j", **fields: object) -> list[str]:
    """Store jobs."""
    jobs = [NewJob(**{"id": f"{prefix}{n}", "task": "t", "payload": b"{}", **fields}) for n in range(count)]  # type: ignore[arg-type]  # NewJob's own fields
    return [one.ref.id for one in await backend.enqueue(QUEUE, jobs)]


async def abandon(backend: Backend, clock: ManualClock, count: int) -> None:
    """Claim jobs and fall silent for longer than their lease."""
    claimant = Claimant(worker="w", incarnation="i", request_id="a" * 32)
    assert len((await backend.claim(QUEUE, count, LEASE_MS, claimant)).leases) == count
    clock.advance(LEASE_MS + 1)


async def states(backend: Backend, ids: Sequence[str]) -> list[State | None]:
    """The states of jobs."""
    return [None if one is None else one.state for one in await backend.get(QUEUE, list(ids))]


@pytest.mark.promise("P-02", "P-23", "P-34", "E-27")
async def test_many_expired_leases_are_recovered_in_bounded_steps(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 25)
    await abandon(backend, clock, 25)
    sweep = Sweep(backend, [QUEUE], batch=10, clock=clock, patience_ms=0)
    steps = [await sweep.step(QUEUE) for _ in range(4)]
    assert [step.recovered for step in steps] == [10, 10, 5, 0]
    assert [step.more for step in steps] == [True, True, False, False]
    records = [one for one in await backend.get(QUEUE, ids) if one is not None]
    assert {(one.state, one.stalls, one.failures) for one in records} == {(State.WAITING, 1, 0)}
    assert {one.history[0].outcome for one in records} == {Outcome.STALLED}
    await backend.close()


@pytest.mark.promise("P-34", "E-28")
async def test_a_flood_of_one_kind_of_work_does_not_stop_the_others(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    await enqueue(backend, 1, "child", parents=())
    await enqueue(backend, 1)
    await abandon(backend, clock, 2)
    await enqueue(backend, 500, "due", delay_ms=10)
    await enqueue(backend, 500, "old", ttl_ms=10)
    clock.advance(1_000)
    sweep = Sweep(backend, [QUEUE], batch=5, clock=clock, patience_ms=0)
    swept = await sweep.step(QUEUE)
    assert (swept.recovered, swept.promoted, swept.expired, swept.more) == (2, 5, 5, True)
    await backend.close()


@pytest.mark.promise("P-02", "P-11")
async def test_racing_sweeps_recover_each_lease_for_one_stall(backend: Backend, clock: ManualClock) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 3)
    await abandon(backend, clock, 3)
    wires = [Wire() for _ in range(3)]
    sweeps = [Sweep(faulty(backend, wire), [QUEUE], clock=clock, patience_ms=0) for wire in wires]
    found = [(await sweep._expired(QUEUE))[0] for sweep in sweeps]
    recovered = [await sweep._recover(QUEUE, leases) for sweep, leases in zip(sweeps, found, strict=True)]
    assert recovered == [3, 0, 0]
    records = [one for one in await backend.get(QUEUE, ids) if one is not None]
    assert {(one.stalls, one.refused_count) for one in records} == {(1, 0)}
    await backend.close()


@pytest.mark.promise("P-11")
async def test_a_lease_that_was_renewed_in_the_meantime_is_left_alone(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 1)
    await abandon(backend, clock, 1)
    sweep = Sweep(backend, [QUEUE], clock=clock, patience_ms=0)
    found, _ = await sweep._expired(QUEUE)
    renewer = backend.renewer()
    renewer.renew(QUEUE, [(found[0].ref.id, found[0].fence)], LEASE_MS)
    renewer.close()
    assert await sweep._recover(QUEUE, found) == 0
    assert await states(backend, ids) == [State.ACTIVE]
    await backend.close()


@pytest.mark.promise("P-50", "P-51")
async def test_a_cancelled_job_of_a_silent_holder_ends_cancelled(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 2)
    await abandon(backend, clock, 2)
    await backend.cancel(QUEUE, ids[:1])
    assert (await Sweep(backend, [QUEUE], clock=clock, patience_ms=0).step(QUEUE)).recovered == 2
    assert await states(backend, ids) == [State.CANCELLED, State.WAITING]
    await backend.close()


@pytest.mark.promise("P-19")
async def test_after_an_outage_nothing_is_recovered_for_one_lease(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 1)
    wire = Wire()
    sweep = Sweep(faulty(backend, wire), [QUEUE], lease_ms=LEASE_MS, clock=clock, patience_ms=0)
    wire.is_down = True
    with pytest.raises(BackendUnavailable):
        await sweep.step(QUEUE)
    wire.is_down = False
    await abandon(backend, clock, 1)
    assert (await sweep.step(QUEUE)).recovered == 0
    clock.advance(LEASE_MS - 1)
    assert (await sweep.step(QUEUE)).recovered == 0
    clock.advance(1)
    assert (await sweep.step(QUEUE)).recovered == 1
    assert await states(backend, ids) == [State.WAITING]
    await backend.close()


@pytest.mark.promise("P-19")
async def test_an_outage_that_one_queue_has_met_counts_for_all(backend: Backend, clock: ManualClock) -> None:
    await backend.prepare()
    await enqueue(backend, 1)
    wire = Wire()
    sweep = Sweep(faulty(backend, wire), [QUEUE, "other"], lease_ms=LEASE_MS, clock=clock, patience_ms=0)
    wire.is_down = True
    with pytest.raises(BackendUnavailable):
        await sweep.step("other")
    wire.is_down = False
    await abandon(backend, clock, 1)
    assert (await sweep.step(QUEUE)).recovered == 0
    clock.advance(LEASE_MS)
    assert (await sweep.step(QUEUE)).recovered == 1
    await backend.close()


@pytest.mark.promise("P-02", "P-19")
async def test_an_outage_of_one_queue_that_goes_on_stops_no_other(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    await enqueue(backend, 1)
    wire = Wire(queues_down={"other"})
    sweep = Sweep(faulty(backend, wire), [QUEUE, "other"], lease_ms=LEASE_MS, clock=clock, patience_ms=0)
    await abandon(backend, clock, 1)
    recovered = []
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await sweep.step("other")
        recovered.append((await sweep.step(QUEUE)).recovered)
        clock.advance(LEASE_MS)
    assert recovered == [0, 1]
    await backend.close()


class Refusing:
    """A backend in which some jobs cannot be settled, and some kinds of work cannot be done."""

    def __init__(self, backend: Backend, bad_ids: set[str], bad_operations: set[str]) -> None:
        self._backend = backend
        self._bad_ids = bad_ids
        self._bad_operations = bad_operations

    def __getattr__(self, name: str) -> object:
        if name in self._bad_operations:
            return self._refuse
        return getattr(self._backend, name)

    async def _refuse(self, *args: object) -> None:
        raise CorruptRecord("a row cannot be read")

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        if any(one.job_id in self._bad_ids for one in settlements):
            raise CorruptRecord("a job cannot be read")
        return await self._backend.settle(queue, settlements)


@pytest.mark.promise("P-34", "P-99")
async def test_one_job_that_cannot_be_recovered_does_not_hold_up_the_others(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 9)
    await abandon(backend, clock, 9)
    told: list[SweepFailed] = []
    refusing = Refusing(backend, {ids[4]}, set())
    sweep = Sweep(refusing, [QUEUE], clock=clock, patience_ms=0, tell=told.append)  # type: ignore[arg-type]  # a Backend by delegation
    assert (await sweep.step(QUEUE)).recovered == 8
    assert [(event.queue, event.chore) for event in told] == [(QUEUE, "recover")]
    assert (await states(backend, ids)).count(State.ACTIVE) == 1
    await backend.close()


@pytest.mark.promise("P-34", "P-99")
async def test_a_kind_of_work_that_fails_stops_no_other(backend: Backend, clock: ManualClock) -> None:
    await backend.prepare()
    await enqueue(backend, 1)
    await abandon(backend, clock, 1)
    await enqueue(backend, 1, "gone", keep=Keep(record_ms=1, result_ms=1))
    await backend.cancel(QUEUE, ["gone0"])
    clock.advance(1_000)
    told: list[SweepFailed] = []
    refusing = Refusing(backend, set(), {"expired", "advance", "outbox"})
    sweep = Sweep(refusing, [QUEUE], clock=clock, patience_ms=0, tell=told.append)  # type: ignore[arg-type]  # a Backend by delegation
    swept = await sweep.step(QUEUE)
    assert (swept.recovered, swept.pruned) == (0, 1)
    assert [event.chore for event in told] == [Chore.RECOVER, Chore.ADVANCE, Chore.FOLLOW_UP]
    await backend.close()


@pytest.mark.promise("P-34", "E-27")
@pytest.mark.parametrize("batch", [0, -1, 1_001])
def test_a_bad_bound_is_refused(batch: int) -> None:
    with pytest.raises(InvalidSetting, match=str(batch)):
        Sweep(MemoryBackend(), [QUEUE], batch=batch)


class Locked:
    """A backend on a file that is locked: it can be read, and a write waits for so long, once."""

    def __init__(self, backend: Backend, clock: ManualClock, *, operation: str, wait_ms: int) -> None:
        self._backend = backend
        self._clock = clock
        self._operation = operation
        self._wait_ms = wait_ms

    def __getattr__(self, name: str) -> object:
        operation = getattr(self._backend, name)
        if name != self._operation:
            return operation

        async def after_the_lock(*args: object) -> object:
            self._clock.advance(self._wait_ms)
            self._wait_ms = 0
            return await operation(*args)

        return after_the_lock


@pytest.mark.promise("P-19")
async def test_a_write_that_had_to_wait_is_an_outage_and_nothing_is_recovered_for_one_lease(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 1)
    await abandon(backend, clock, 1)
    locked = Locked(backend, clock, operation="advance", wait_ms=LEASE_MS // 2)
    sweep = Sweep(locked, [QUEUE], lease_ms=LEASE_MS, clock=clock, patience_ms=0)  # type: ignore[arg-type]  # a Backend by delegation
    assert (await sweep.step(QUEUE)).recovered == 0
    clock.advance(LEASE_MS - 1)
    assert (await sweep.step(QUEUE)).recovered == 0
    assert await states(backend, ids) == [State.ACTIVE]
    clock.advance(1)
    assert (await sweep.step(QUEUE)).recovered == 1
    await backend.close()


@pytest.mark.promise("P-19")
async def test_a_recovery_that_had_to_wait_is_the_last_for_one_lease(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    await enqueue(backend, 2)
    await abandon(backend, clock, 2)
    locked = Locked(backend, clock, operation="settle", wait_ms=LEASE_MS // 2)
    sweep = Sweep(locked, [QUEUE], batch=1, lease_ms=LEASE_MS, clock=clock, patience_ms=0)  # type: ignore[arg-type]  # a Backend by delegation
    assert [(await sweep.step(QUEUE)).recovered for _ in range(2)] == [1, 0]
    clock.advance(LEASE_MS)
    assert (await sweep.step(QUEUE)).recovered == 1
    await backend.close()


@pytest.mark.promise("P-19", "P-11")
async def test_a_lease_that_is_renewed_when_the_lock_ends_is_not_recovered(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 1)
    await abandon(backend, clock, 1)
    lease = (await backend.expired(QUEUE, 1))[0]

    class Renewing(Locked):
        async def advance(self, queue: str, limit: int) -> object:
            renewer = backend.renewer()
            renewer.renew(queue, [(lease.ref.id, lease.fence)], LEASE_MS)
            renewer.close()
            return await backend.advance(queue, limit)

    sweep = Sweep(Renewing(backend, clock, operation="", wait_ms=0), [QUEUE], clock=clock, patience_ms=0)  # type: ignore[arg-type]  # a Backend by delegation
    assert (await sweep.step(QUEUE)).recovered == 0
    assert await states(backend, ids) == [State.ACTIVE]
    await backend.close()


@pytest.mark.promise("P-34")
async def test_pruning_has_a_bound_of_its_own_ten_times_the_batch_and_at_most_a_thousand(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.prepare()
    ids = await enqueue(backend, 25, keep=Keep(record_ms=1, result_ms=1))
    await backend.cancel(QUEUE, ids)
    clock.advance(1_000)
    sweep = Sweep(backend, [QUEUE], batch=1, clock=clock, patience_ms=0)
    steps = [await sweep.step(QUEUE) for _ in range(3)]
    assert [step.pruned for step in steps] == [10, 10, 5]
    assert [step.unfinished for step in steps] == [{Chore.PRUNE}, {Chore.PRUNE}, set()]
    assert Sweep(backend, [QUEUE], batch=1_000).prune_batch == 1_000
    await backend.close()
