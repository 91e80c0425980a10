"""What operators do to many jobs at once, and to whole queues, through the public API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasemq import App, State, selection
from leasemq.backends.memory import MemoryBackend
from leasemq.errors import (
    CorruptRecord,
    IllegalMove,
    InvalidJobId,
    InvalidSetting,
    JobNotFound,
    NaiveDatetime,
    WorkerNotFound,
)
from leasemq.protocol.decide import Reason
from leasemq.protocol.insight import Change, Counts, WorkerInfo
from leasemq.protocol.model import Lease
from leasemq.queue import Queue
from leasemq.selection import NotDone, Tally
from leasemq.task import Task
from leasemq.testing.manual_clock import ManualClock
from tests.app.holder import Holder


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t", queue="q")
    async def t(n: int) -> Any: ...

    return t


@pytest.fixture
def queue(app: App) -> Queue:
    return app.queue("q")


async def put(task: Task[[int], Any], *ids: str, **options: Any) -> None:
    for id_ in ids:
        await task.options(id=id_, **options).enqueue(0)


async def bury(holder: Holder, count: int, reason: Reason = Reason.DEAD) -> list[Lease]:
    leases = await holder.claim("q", limit=count)
    for lease in leases:
        await holder.gives_up(lease, ValueError("no"), reason)
    return leases


async def ids(queue: Queue, state: State) -> list[str]:
    page = await queue.find(states=state, oldest_first=True)
    return [record.ref.id for record in page.jobs]


def adds_up(counts: Counts) -> bool:
    return bool(counts.stored == sum(getattr(counts, state.value) for state in State))


# ---- replay


@pytest.mark.promise("P-54", "A-23")
async def test_a_dry_run_tells_what_a_replay_would_do_and_changes_nothing(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    other = app.task(name="other", queue="q")(lambda n: n)
    async with app:
        await put(task, "a", "b")
        await other.options(id="c").enqueue(0)
        await bury(holder, 3)
        before = (await queue.dead()).jobs
        chosen = queue.where(task="t")

        assert await chosen.replay(dry_run=True) == Tally(done=2, dry_run=True)
        assert (await queue.dead()).jobs == before
        assert await chosen.replay() == Tally(done=2)
        assert (await ids(queue, State.WAITING), await ids(queue, State.FAILED)) == (["a", "b"], ["c"])
        assert await chosen.replay() == Tally()


@pytest.mark.promise("P-54", "A-23", "A-10")
async def test_a_bulk_replay_keeps_payload_history_and_id_and_gives_a_fresh_ttl(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        for n in range(3):
            await task.options(id=f"j{n}", ttl=3_600).enqueue(n)
        dead = {lease.ref.id: lease for lease in await bury(holder, 3)}
        past = {record.ref.id: record for record in (await queue.dead()).jobs}

        assert (await queue.where(id_prefix="j").replay()).done == 3

        for lease in await holder.claim("q", limit=3):
            record = await queue.get(lease.ref.id)
            assert record is not None
            before = past[lease.ref.id]
            assert (lease.payload, lease.ref) == (dead[lease.ref.id].payload, dead[lease.ref.id].ref)
            assert lease.fence.number > dead[lease.ref.id].fence.number
            assert [attempt.replay for attempt in record.history] == [False, True]
            assert (record.replays, record.history[:1]) == (1, before.history)
            assert record.expires_ms is not None
            assert before.expires_ms is not None
            assert record.expires_ms >= before.expires_ms


@pytest.mark.promise("P-54", "A-23")
async def test_a_replay_by_filter_takes_reason_age_and_number(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "dead", "late", "more", "most")
        await bury(holder, 1)
        await bury(holder, 3, Reason.TIMEOUT)

        assert (await queue.where(reason="timeout", older_than=3_600).replay(dry_run=True)).done == 0
        assert (await queue.where(reason="timeout", newer_than=3_600).replay(dry_run=True)).done == 3
        assert await queue.where(reason="timeout", limit=2).replay() == Tally(done=2)
        assert await ids(queue, State.WAITING) == ["late", "more"]  # the oldest accepted
        assert await queue.where(reason="timeout").count() == 1
        for wrong in ({"limit": -1}, {"limit": 1.5}, {"states": ["done"]}):
            with pytest.raises(InvalidSetting):
                queue.where(**wrong)


@pytest.mark.promise("P-54", "P-41")
async def test_a_bulk_replay_names_conflicts_and_leaves_alone_what_is_not_dead(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "loser", unique="key")
        await bury(holder, 1)
        await put(task, "holder", unique="key")
        await put(task, "fine")

        told = await queue.these(["loser", "fine", "nobody"]).replay()

        assert (told.done, told.conflicts, told.left_alone, told.not_found) == (0, 1, 1, 1)
        conflict, alone, missing = told.not_done
        assert (conflict.id, conflict.change, conflict.holder and conflict.holder.id) == (
            "loser", Change.CONFLICT, "holder",
        )  # fmt: skip
        assert alone == NotDone(id="fine", change=Change.ILLEGAL, state=State.WAITING)
        assert missing == NotDone(id="nobody", change=Change.NOT_FOUND, state=None)
        foreseen = await queue.these(["loser", "fine", "nobody"]).replay(dry_run=True)
        assert (foreseen.done, foreseen.left_alone, foreseen.not_found) == (1, 1, 1)


@pytest.mark.promise("P-54")
async def test_what_was_cancelled_on_purpose_is_replayed_only_when_asked_for(
    app: App, task: Task[[int], Any], queue: Queue
) -> None:
    async with app:
        await put(task, "a", "b")
        await queue.these(["a", "b"]).cancel()

        assert await queue.where().replay() == Tally()
        assert await queue.where(states="cancelled").replay() == Tally(done=2)


@pytest.mark.promise("P-54", "P-34")
async def test_a_job_that_dies_again_during_a_bulk_replay_is_not_replayed_again(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasemq.selection.STEP_LIMIT", 2)
    async with app:
        await put(task, *(f"j{n}" for n in range(7)))
        await bury(holder, 7)
        steps = await spied_on(app, monkeypatch, "replay", then=lambda: bury(holder, 2))

        assert (await queue.where().replay()).done == 7
        assert steps == [2, 2, 2, 1]
        assert {record.replays for record in (await queue.find()).jobs} == {1}


# ---- cancel, promote, reprioritise, reschedule, remove


@pytest.mark.promise("P-50", "A-21")
async def test_cancelling_many_says_which_of_the_three_it_was(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "done", "running", "waits")
        await put(task, "later", delay=3_600)
        await holder.returns_next(task, 1, "q")
        await holder.claim("q")
        chosen = queue.these(["done", "running", "waits", "later", "nobody"])

        foreseen = await chosen.cancel(dry_run=True)
        told = await chosen.cancel()

        assert (told.done, told.cancelling, told.left_alone, told.not_found) == (2, 1, 1, 1)
        assert (foreseen.done, foreseen.cancelling, foreseen.left_alone, foreseen.not_found) == (2, 1, 1, 1)
        assert await ids(queue, State.CANCELLED) == ["waits", "later"]
        assert await queue.where(states="waiting").cancel() == Tally()
        assert adds_up(await queue.counts())


@pytest.mark.promise("P-53", "P-32")
async def test_many_are_promoted_and_reprioritised_and_keep_their_order_of_age(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "first", "second", "third", "fourth")
        await put(task, "later", delay=3_600)
        assert await queue.these(["third", "second"]).reprioritise(5) == Tally(done=2)
        assert await queue.where().promote() == Tally(done=1)
        with pytest.raises(InvalidSetting, match="priority"):
            await queue.where().reprioritise(101)

        started = [lease.ref.id for lease in await holder.claim("q", limit=10)]

        assert started == ["second", "third", "first", "fourth", "later"]
        assert await queue.where(states="active").reprioritise(1, dry_run=True) == Tally(
            left_alone=5,
            dry_run=True,
            not_done=tuple(
                NotDone(id=id_, change=Change.ILLEGAL, state=State.ACTIVE)
                for id_ in ("first", "second", "third", "fourth", "later")
            ),
        )


@pytest.mark.promise("P-53", "P-31")
async def test_a_due_time_is_moved_by_a_delay_or_to_an_aware_instant(
    app: App, task: Task[[int], Any], queue: Queue
) -> None:
    moment = datetime(2099, 5, 1, 12, tzinfo=UTC)
    async with app:
        await put(task, "a", "b", "c")
        await queue.reschedule("a", due_at=moment)
        assert await queue.these(["b", "c"]).reschedule(60) == Tally(done=2)
        await queue.reschedule("c", due_at=moment - timedelta(days=100_000))

        assert await ids(queue, State.SCHEDULED) == ["a", "b"]
        assert await ids(queue, State.WAITING) == ["c"]
        record = await queue.get("a")
        assert record is not None
        assert record.due_ms == moment.timestamp() * 1_000
        with pytest.raises(NaiveDatetime):
            await queue.reschedule("a", due_at=moment.replace(tzinfo=None))
        both: dict[str, Any] = {"delay": 1, "due_at": moment}
        for neither_or_both in ({}, both):
            with pytest.raises(InvalidSetting, match="give one of them"):
                await queue.reschedule("a", **neither_or_both)


@pytest.mark.promise("P-53", "E-49", "A-22")
async def test_removing_by_filter_spares_what_left_the_states_asked_for(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasemq.selection.STEP_LIMIT", 2)
    async with app:
        await put(task, "a", "b", "c")
        await bury(holder, 3)
        await spied_on(app, monkeypatch, "find", then=lambda: queue.these(["a"]).replay())

        told = await queue.where(states="failed").remove()

        assert (told.done, told.left_alone) == (2, 1)
        assert await ids(queue, State.WAITING) == ["a"]


@pytest.mark.promise("P-53", "E-49")
async def test_running_jobs_are_removed_only_by_force(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "runs", "waits")
        (lease,) = await holder.claim("q")

        assert (await queue.where().remove(dry_run=True)).done == 1
        told = await queue.these(["runs", "waits"]).remove()
        assert (told.done, told.left_alone) == (1, 1)
        assert await queue.where(states="active").remove(force=True) == Tally(done=1)
        assert await holder.returns(lease, task, 1) == "gone"
        assert await queue.get("runs") is None


async def test_ids_are_checked_before_anything_is_done(app: App, queue: Queue) -> None:
    with pytest.raises(InvalidJobId):
        queue.these(["fine", ""])
    with pytest.raises(InvalidSetting, match="give a list"):
        queue.these("fine")
    async with app:
        with pytest.raises(InvalidSetting, match="no pages"):
            await queue.these(["a"]).page()


# ---- whole queues


@pytest.mark.promise("P-53", "A-20", "B58")
async def test_a_drain_takes_only_the_states_asked_for(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "runs", "waits")
        await put(task, "later", delay=3_600)
        await holder.claim("q")
        await queue.pause()

        assert [await queue.drain(["waiting"], dry_run=True), await queue.drain(dry_run=True)] == [1, 2]
        assert await queue.drain(["waiting"]) == 1
        assert await ids(queue, State.SCHEDULED) == ["later"]
        assert await queue.drain() == 1
        assert ((await queue.counts()).active, (await queue.counts()).paused) == (1, True)
        with pytest.raises(InvalidSetting, match="drain takes the states blocked, scheduled, waiting"):
            await queue.drain(["active"])


@pytest.mark.promise("P-53", "A-36")
async def test_dry_runs_of_purge_and_obliterate_answer_what_they_would_remove(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, *(f"j{n}" for n in range(5)))
        await bury(holder, 3)
        (lease,) = await holder.claim("q")

        assert await queue.purge(["failed"], dry_run=True) == 3
        assert await queue.purge(["failed"], older_than=60, dry_run=True) == 0
        assert await queue.purge(["failed"], limit=2, dry_run=True) == 2
        assert await queue.purge(["failed"], limit=2) == 2
        assert await queue.purge(limit=0) == 0
        with pytest.raises(IllegalMove, match=r"active jobs.*wait for them, or pass force"):
            await queue.obliterate(dry_run=True)
        assert await queue.obliterate(force=True, dry_run=True) == 3
        await holder.returns(lease, task, 1)
        assert await queue.obliterate(dry_run=True) == 3
        assert await queue.obliterate() == 3


@pytest.mark.promise("P-53", "B47", "A-50")
async def test_a_purge_of_one_queue_leaves_those_with_names_like_it_alone(
    app: App, task: Task[[int], Any]
) -> None:
    names = ["a", "a:delayed", "a:", "{a}", "a{b}", "*", "q/../x", "日本"]
    async with app:
        for name in names:
            await task.options(queue=name).enqueue_many([(n,) for n in range(3)])
            await app.queue(name).where().cancel()

        assert await app.queue("a").purge() == 3
        assert await app.queue("*").where().remove() == Tally(done=3)

        left = {name: (await app.queue(name).counts()).stored for name in names}
        assert left == {name: 0 if name in ("a", "*") else 3 for name in names}


@pytest.mark.promise("A-23", "A-36")
@pytest.mark.parametrize(("older_than", "newer_than"), [(None, 3_600), (1_800, None)])
async def test_an_age_is_as_of_the_beginning_however_long_the_action_takes(
    monkeypatch: pytest.MonkeyPatch, older_than: float | None, newer_than: float | None
) -> None:
    clock = ManualClock()
    app = App(MemoryBackend(clock=clock))
    task: Task[[int], Any] = app.task(name="t", queue="q")(some)
    monkeypatch.setattr(selection, "STEP_LIMIT", 2)
    async with app:
        await put(task, "a", "b", "c")
        clock.advance(600_000)
        await put(task, *"de")
        clock.advance(1_500_000)

        async def an_hour_goes_by() -> None:
            clock.advance(3_600_000)

        await spied_on(app, monkeypatch, "cancel", then=an_hour_goes_by)
        tally = await app.queue("q").where(older_than=older_than, newer_than=newer_than).cancel()
        assert tally.done == (3 if older_than else 5)


async def some(n: int) -> Any: ...


@pytest.mark.promise("P-99", "A-22")
async def test_named_jobs_are_removed_unread_and_counted_in_bounded_parts() -> None:
    class Careful(MemoryBackend):
        async def get(self, queue: str, ids: Any) -> Any:
            if "bad" in ids:
                raise CorruptRecord("job bad cannot be read")
            read.append(len(ids))
            return await super().get(queue, ids)

    read: list[int] = []
    app = App(Careful())
    task: Task[[str], Any] = app.task(name="t", queue="q")(large)
    async with app:
        names = [str(n) for n in range(90)]
        await task.enqueue_many([task.options(id=id_).call("x" * 500_000) for id_ in names])
        await task.options(id="bad").enqueue("")
        assert await app.queue("q").these(names).count() == 90
        assert max(read) == read[0] <= 64
        assert max(read[1:]) <= 10
        read.clear()
        assert (await app.queue("q").these([*names, "bad", "none"]).remove()).done == 91
        assert not read


async def large(text: str) -> Any: ...


@pytest.mark.promise("A-36", "P-34", "P-43")
@pytest.mark.parametrize(("action", "thousands"), [("drain", 10), ("purge", 3), ("remove", 3)])
async def test_ten_thousand_go_in_bounded_steps_between_which_workers_claim(
    app: App,
    task: Task[[int], Any],
    queue: Queue,
    holder: Holder,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    thousands: int,
) -> None:
    other = app.task(name="other", queue="another")(lambda n: n)
    async with app:
        for _ in range(thousands):
            await task.options(delay=3_600).enqueue_many([(0,)] * 1_000)
        await other.options().enqueue_many([(0,)] * 20)
        if action == "purge":
            await queue.where().cancel()
        claimed: list[Lease] = []

        async def claim() -> None:
            claimed.extend(await holder.claim("another"))

        steps = await spied_on(app, monkeypatch, action, then=claim)
        removed = await {
            "drain": queue.drain, "purge": queue.purge, "remove": lambda: counted(queue),
        }[action]()  # fmt: skip

        assert removed == thousands * 1_000
        assert len(steps) <= thousands + 1
        assert len(claimed) == len(steps)
        counts = await queue.counts()
        assert (counts.accepted, counts.removed, counts.stored) == (removed, removed, 0)


async def counted(queue: Queue) -> int:
    return (await queue.where(states="scheduled").remove()).done


# ---- errors and workers


@pytest.mark.promise("A-22", "P-53")
async def test_a_refusal_names_the_job_its_state_and_what_helps(
    app: App, task: Task[[int], Any], queue: Queue, holder: Holder
) -> None:
    async with app:
        await put(task, "runs")
        await holder.claim("q")
        for refused, said in {
            queue.promote: "only a scheduled job can be",
            queue.replay: "only a failed, expired or cancelled job can be",
            queue.remove: "cancel it and wait for its end, or pass force=True",
        }.items():
            with pytest.raises(IllegalMove, match=f"job runs is active, so it cannot be .*: {said}"):
                await refused("runs")
        with pytest.raises(JobNotFound, match="no job nobody in queue q"):
            await queue.promote("nobody")


@pytest.mark.promise("A-33", "A-45")
async def test_a_worker_is_deregistered_by_name_or_by_incarnation_and_may_come_back(app: App) -> None:
    async with app:
        backend = (await app._connections.here()).backend
        lives = [life("w1", "one"), life("w1", "two"), life("w2", "three")]
        for one in lives:
            await backend.announce(one, 60_000)

        assert [one.incarnation for one in await app.deregister("three")] == ["three"]
        assert [one.incarnation for one in await app.deregister("w1")] == ["one", "two"]
        with pytest.raises(WorkerNotFound, match="no worker w1"):
            await app.deregister("w1")
        await backend.announce(lives[0], 60_000)  # as a living worker does
        assert [one.incarnation for one in await app.workers()] == ["one"]


def life(worker: str, incarnation: str) -> WorkerInfo:
    return WorkerInfo(
        worker=worker,
        incarnation=incarnation,
        host="host",
        pid=1,
        version="1",
        queues=("q",),
        slots=1,
        running=0,
    )


async def spied_on(
    app: App, monkeypatch: pytest.MonkeyPatch, operation: str, then: Callable[[], Awaitable[object]]
) -> list[int]:
    """Note how many each call of a backend's operation asks for or answers, and have something follow it."""
    backend = (await app._connections.here()).backend
    true, sizes = getattr(backend, operation), []

    async def spied(*args: Any, **options: Any) -> Any:
        answer = await true(*args, **options)
        sizes.append(answer if isinstance(answer, int) else len(args[1]) if operation != "find" else 0)
        await then()
        return answer

    monkeypatch.setattr(backend, operation, spied)
    return sizes
