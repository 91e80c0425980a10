"""Follow-ups: dependants released once, whoever crashes in between."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from leasemq.backend import Backend
from leasemq.backends.memory import MemoryBackend
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.maintenance import follow_up
from leasemq.protocol.decide import Hopeless, Reason, Returned, decide
from leasemq.protocol.model import Claimant, NewJob, Note, NoteKind, OnParentFailure, Parent, State
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.manual_clock import ManualClock

PARENTS, CHILDREN = "parents", "children"


@pytest.fixture
def backend(backend_name: str, tmp_path: Path) -> Backend:
    """A backend, not open yet."""
    clock = ManualClock()
    if backend_name == "memory":
        return MemoryBackend(clock=clock)
    from leasemq.backends.sqlite import SqliteBackend

    return SqliteBackend(tmp_path / "jobs.db", clock=clock, inline=True, sync="normal")


async def add(backend: Backend, queue: str, id_: str, *parents: Parent) -> None:
    """Store one job."""
    await backend.enqueue(queue, [NewJob(id=id_, task="t", payload=b"{}", parents=parents)])


async def end(backend: Backend, queue: str, *, well: bool = True) -> None:
    """Claim the next job of a queue and end it."""
    claimant = Claimant(worker="w", incarnation="i", request_id=f"{await backend.now_ms():032x}")
    lease = (await backend.claim(queue, 1, 1_000, claimant)).leases[0]
    happened = Returned(result=b"1") if well else Hopeless(error=b"e", reason=Reason.DEAD)
    assert [
        *await backend.settle(queue, [decide(lease, happened, settlement_id=hash(lease.ref.id) & 0xFFFF)])
    ] == ["applied"]


async def state(backend: Backend, queue: str, id_: str) -> State:
    """The state of a job that must be there."""
    record = (await backend.get(queue, [id_]))[0]
    assert record is not None
    return record.state


async def carry_out_all(backend: Backend) -> None:
    """Until both outboxes are empty."""
    while await follow_up(backend, PARENTS, 10) + await follow_up(backend, CHILDREN, 10):
        pass


@pytest.mark.promise("P-110", "A-24")
@pytest.mark.parametrize("policy", OnParentFailure)
@pytest.mark.parametrize("well", [True, False])
@pytest.mark.parametrize("order", ["before the parent ends", "after the parent ended"])
async def test_a_dependant_is_released_or_failed_as_its_parent_ends(
    backend: Backend, policy: OnParentFailure, well: bool, order: str
) -> None:
    await backend.prepare()
    parent = Parent(queue=PARENTS, id="p", on_failure=policy)
    await add(backend, PARENTS, "p")
    if order == "after the parent ended":
        await end(backend, PARENTS, well=well)
    await add(backend, CHILDREN, "c", parent)
    await carry_out_all(backend)
    if order == "before the parent ends":
        assert await state(backend, CHILDREN, "c") is State.BLOCKED
        await end(backend, PARENTS, well=well)
        await carry_out_all(backend)
    bad = {
        OnParentFailure.FAIL: State.FAILED,
        OnParentFailure.IGNORE: State.WAITING,
        OnParentFailure.KEEP: State.BLOCKED,
    }
    assert await state(backend, CHILDREN, "c") is (State.WAITING if well else bad[policy])
    await backend.close()


@pytest.mark.promise("P-110")
async def test_a_failure_runs_down_the_chain_of_dependants_in_one_call(backend: Backend) -> None:
    await backend.prepare()
    await add(backend, PARENTS, "p")
    await add(backend, CHILDREN, "c0", Parent(queue=PARENTS, id="p"))
    for n in range(1, 5):
        await add(backend, CHILDREN, f"c{n}", Parent(queue=CHILDREN, id=f"c{n - 1}"))
    await carry_out_all(backend)
    await end(backend, PARENTS, well=False)
    assert await follow_up(backend, PARENTS, 100) == 5
    assert {await state(backend, CHILDREN, f"c{n}") for n in range(5)} == {State.FAILED}
    await backend.close()


@pytest.mark.promise("P-110")
async def test_an_unknown_parent_counts_as_one_that_did_not_complete(backend: Backend) -> None:
    await backend.prepare()
    await add(backend, CHILDREN, "c", Parent(queue=PARENTS, id="nowhere"))
    await carry_out_all(backend)
    assert await state(backend, CHILDREN, "c") is State.FAILED
    await backend.close()


async def crashes(backend: Backend, queue: str) -> bool:
    """Carry out a queue's outbox; answers whether the connection failed in the middle."""
    with suppress(BackendUnavailable, IndeterminateWrite):
        await follow_up(backend, queue, 10)
        return False
    return True


@pytest.mark.promise("P-110", "P-03")
@pytest.mark.parametrize("operation", ["outbox", "attach", "resolve", "outbox_done", "enqueue"])
@pytest.mark.parametrize("lost", ["lose_request", "lose_reply"])
async def test_a_crash_at_any_point_leaves_it_to_the_next_sweep_and_has_one_effect(
    backend: Backend, operation: str, lost: str
) -> None:
    await backend.prepare()
    wire = Wire()
    getattr(wire, lost)(operation)
    crashing = faulty(backend, wire)
    await add(backend, PARENTS, "p")
    await add(backend, CHILDREN, "c", Parent(queue=PARENTS, id="p"))
    seen = [await crashes(crashing, CHILDREN)]
    claimant = Claimant(worker="w", incarnation="i", request_id="b" * 32)
    lease = (await backend.claim(PARENTS, 1, 1_000, claimant)).leases[0]
    child = NewJob(id="offered", task="t", payload=b"{}")
    offer = Note(job_id="p", fence=lease.fence, kind=NoteKind.OFFER, queue=CHILDREN, child=child)
    await backend.note(PARENTS, [offer])
    await backend.settle(PARENTS, [decide(lease, Returned(result=b"1"), settlement_id=5)])
    seen.append(await crashes(crashing, PARENTS))
    await carry_out_all(backend)
    assert sum(seen) == 1
    assert await state(backend, CHILDREN, "c") is State.WAITING
    assert await state(backend, CHILDREN, "offered") is State.WAITING
    assert (await backend.counts(CHILDREN)).accepted == 2
    await backend.close()


async def test_an_outage_is_the_callers_to_repeat(backend: Backend) -> None:
    await backend.prepare()
    wire = Wire(is_down=True)
    with pytest.raises(BackendUnavailable):
        await follow_up(faulty(backend, wire), PARENTS, 10)
    await backend.close()
