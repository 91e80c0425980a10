"""Every public call that is awaited has a twin for callers without an event loop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from leasemq import App, Ctx, Job, State, Task
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import IllegalMove, JobNotFound, SyncInsideLoop
from leasemq.oversight import Oversight
from leasemq.protocol.insight import CancelAnswer
from leasemq.queue import Queue
from leasemq.selection import Selection
from leasemq.task import Enqueuing
from tests.app.holder import Holder

pytestmark = pytest.mark.promise("A-48")

FACES = (App, Oversight, Queue, Selection, Job, Task, Enqueuing, Ctx)
OTHER_TWINS = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
NEEDS_A_LOOP = {("App", "lifespan")}  # an asynchronous web server calls it, nobody else


def awaited(face: type) -> list[str]:
    """The public methods of a class that a caller awaits or iterates asynchronously."""
    found = []
    for name, member in vars(face).items():
        is_public = not name.startswith("_") or name in OTHER_TWINS
        inner = inspect.unwrap(member) if callable(member) else None
        if is_public and (inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)):
            found.append(name)
    return found


def parameters(method: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; what is overloaded says no more in its implementation."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize("face", FACES)
def test_whatever_is_awaited_has_a_twin_that_takes_the_same(face: type) -> None:
    assert awaited(face)
    for name in awaited(face):
        if (face.__name__, name) in NEEDS_A_LOOP:
            continue
        twin = vars(face).get(OTHER_TWINS.get(name, f"{name}_sync"))
        assert twin is not None, f"{face.__name__}.{name} has no twin"
        assert parameters(twin) == parameters(vars(face)[name]), f"{face.__name__}.{name}"
        assert not inspect.iscoroutinefunction(twin)


@pytest.mark.parametrize("face", FACES)
def test_a_twin_answers_what_the_awaited_one_does(face: type) -> None:
    for name in awaited(face):
        twin = vars(face).get(f"{name}_sync")
        if twin is None or face is Ctx:
            continue
        told = vars(face)[name].__annotations__["return"].replace("AsyncGenerator[", "Iterator[")
        assert twin.__annotations__["return"] == told.replace(", None]", "]"), f"{face.__name__}.{name}"


@pytest.fixture
def task(app: App) -> Iterator[Task[[int], Any]]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    yield t
    loop_thread().close()


def test_an_operator_s_script_needs_no_loop(app: App, task: Task[[int], Any]) -> None:
    queue = app.queue()
    with app:
        assert app.prepare_sync().backend
        ids = [job.id for job in task.enqueue_many_sync([(n,) for n in range(6)])]
        late = task.options(id="late", delay=3_600).enqueue_sync(1)
        assert (queue.counts_sync().waiting, queue.counts_sync().scheduled) == (6, 1)
        queue.pause_sync()
        assert queue.counts_sync().paused
        queue.resume_sync()
        queue.reschedule_sync("late", 7_200)
        queue.promote_sync("late")
        queue.reprioritise_sync("late", 9)
        assert late.state_sync() is State.WAITING
        assert queue.get_sync("nobody") is None
        assert len(queue.find_sync(states=["waiting"], limit=3).jobs) == 3
        assert queue.cancel_sync(ids[0]) is CancelAnswer.CANCELLED
        queue.replay_sync(ids[0])
        app.call_sync(lambda: Holder(app).returns_next(task, "value"))
        with pytest.raises(IllegalMove):
            queue.replay_sync("late")
        queue.remove_sync(ids[1])
        with pytest.raises(JobNotFound):
            queue.remove_sync(ids[1])
        assert (queue.drain_sync(), queue.purge_sync()) == (5, 1)
        assert list(app.queues_sync()) == ["default"]
        assert list(app.workers_sync()) == []
        assert queue.obliterate_sync() == 0
    assert app._connections._places == {}


def test_a_sync_iterator_reads_on_and_stops_where_its_reader_does(app: App, task: Task[[int], Any]) -> None:
    async def bury(count: int) -> None:
        holder = Holder(app)
        await task.enqueue_many([(n,) for n in range(count)])
        for lease in await holder.claim(limit=count):
            await holder.raises(lease, ValueError())

    app.call_sync(lambda: bury(230))
    assert len({record.ref.id for record in app.queue().every_dead_sync()}) == 230
    assert len(list(app.dead_sync())) == 230
    assert len(app.queue().dead_sync(limit=5).jobs) == 5
    some = app.dead_sync("default")
    assert next(some).state is State.FAILED
    del some
    first = next(app.dead_sync())
    app.replay_sync(app.job("default", first.ref.id))
    assert app.queue().counts_sync().failed == 229


async def test_each_twin_is_refused_inside_a_running_loop(app: App, task: Task[[int], Any]) -> None:
    queue, job = app.queue(), task.job("x")
    calls: list[Callable[[], object]] = [
        lambda: task.enqueue_sync(1),
        job.state_sync,
        queue.pause_sync,
        queue.find_sync,
        queue.dead_sync,
        queue.every_dead_sync,
        app.dead_sync,
        app.workers_sync,
        app.prepare_sync,
        app.close_sync,
        lambda: app.replay_sync(job),
        app.__enter__,
    ]
    for call in calls:
        with pytest.raises(SyncInsideLoop, match="instead"):
            call()


def test_many_threads_use_all_twins_at_once(app: App, task: Task[[int], Any]) -> None:
    queue = app.queue()

    def work(n: int) -> bool:
        with app:
            job = task.enqueue_sync(n)
            queue.counts_sync()
            list(app.dead_sync())
            return queue.cancel_sync(job.id) is CancelAnswer.CANCELLED

    with app, ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(100)))
        assert queue.counts_sync().cancelled == 100
    assert [thread.name for thread in threading.enumerate()].count("leasemq-sync") == 1
