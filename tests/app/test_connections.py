"""One app in several event loops, threads and turns: each has a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leasemq import App
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.sqlite import SqliteBackend
from leasemq.client.connection import Connections, Source
from leasemq.errors import BackendUnavailable, InvalidSetting, Refused, SyncInsideLoop
from leasemq.protocol.insight import Capabilities
from leasemq.protocol.model import Enqueued, NewJob


class CountedBackend(MemoryBackend):
    """Counts what is done to it, and cannot be prepared while it is told so. Owner: the test."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared = 0
        self.closed = 0
        self.is_down = False

    async def prepare(self) -> Capabilities:
        self.prepared += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise BackendUnavailable("nobody answers")
        return await super().prepare()

    async def close(self) -> None:
        self.closed += 1


def connections(backend: CountedBackend) -> Connections:
    return Connections(lambda: Source(open=lambda: backend, is_shared=True))


async def test_many_first_uses_at_once_open_once() -> None:
    backend = CountedBackend()
    opened = connections(backend)
    found = await asyncio.gather(*(opened.here() for _ in range(20)))
    assert backend.prepared == 1
    assert all(one is found[0] for one in found)


async def test_a_backend_that_cannot_be_prepared_is_closed_and_tried_again_with_the_next_use() -> None:
    backend = CountedBackend()
    opened = connections(backend)
    backend.is_down = True
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await opened.enter()
    assert (backend.prepared, backend.closed) == (2, 2)
    backend.is_down = False
    await opened.enter()
    await opened.leave()
    assert (backend.prepared, backend.closed) == (3, 3)
    assert opened.open_here() is None


async def test_the_last_to_leave_closes() -> None:
    backend = CountedBackend()
    opened = connections(backend)
    await opened.enter()
    await opened.enter()
    await opened.leave()
    assert backend.closed == 0
    await opened.leave()
    await opened.leave()
    assert backend.closed == 1


def test_each_event_loop_has_a_connection_of_its_own_on_one_store(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db?sync=normal")

    @app.task(name="t")
    async def t(n: int) -> None: ...

    async def produce() -> None:
        async with app:
            for n in range(20):
                await t.enqueue(n)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(produce()), range(4)))
    assert asyncio.run(counted(app)) == 80


def test_memory_is_one_store_for_all_loops_even_if_they_open_at_once() -> None:
    app = App("memory://")

    @app.task(name="t")
    async def t(n: int) -> None: ...

    barrier = threading.Barrier(4)

    async def produce() -> None:
        barrier.wait(10)
        async with app:
            for n in range(20):
                await t.enqueue(n)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(produce()), range(4)))
    assert asyncio.run(counted(app)) == 80


async def counted(app: App) -> int:
    async with app:
        return (await app.queue().counts()).accepted


async def test_an_app_on_a_given_backend_may_be_opened_again(tmp_path: Path) -> None:
    app = App(SqliteBackend(tmp_path / "jobs.db", sync="normal"))
    task: Any = app.task(name="t")(lambda: None)
    for expected in (1, 2):
        async with app:
            await task.enqueue()
            assert (await app.queue().counts()).accepted == expected


async def test_a_namespace_keeps_apps_apart_in_one_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?sync=normal"
    first, second = App(url, namespace="a"), App(url, namespace="b")
    task: Any = first.task(name="t")(lambda: None)
    async with first, second:
        await task.enqueue()
        assert (await first.queue().counts()).accepted == 1
        assert (await second.queue().counts()).accepted == 0


async def test_run_worker_is_for_the_main_thread_and_outside_of_a_loop() -> None:
    app = App("memory://")
    with pytest.raises(SyncInsideLoop, match=r"app\.worker\(\)\.run\(\)"):
        app.run_worker()
    with pytest.raises(Refused, match="main thread"):
        await asyncio.to_thread(app.run_worker)
    with pytest.raises(InvalidSetting, match="concurrency"):
        await asyncio.to_thread(app.run_worker, concurrency=0)


async def test_an_app_that_nobody_closes_is_closed_by_the_end_of_its_loop(tmp_path: Path) -> None:
    backend = CountedBackend()

    async def use() -> None:
        app = App(backend)
        task: Any = app.task(name="t")(lambda: None)
        await task.enqueue()

    await asyncio.to_thread(asyncio.run, use())
    assert backend.closed == 1


def test_loops_that_come_and_go_leave_no_thread_behind(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db?sync=normal")
    task: Any = app.task(name="t")(lambda: None)
    before = set(threading.enumerate())
    for _ in range(5):
        asyncio.run(task.enqueue())
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # one that has said that it is done may not have returned yet
        assert not thread.is_alive(), thread.name
    assert asyncio.run(counted(app)) == 5


async def test_a_close_while_another_opens_leaves_nothing_open() -> None:
    backend = CountedBackend()
    opened = connections(backend)
    opening = asyncio.create_task(opened.here())
    await asyncio.sleep(0)
    await opened.close_here()
    await opening
    await opened.close_here()
    assert (backend.prepared, backend.closed) == (1, 1)
    assert opened.open_here() is None


async def test_a_close_that_is_cancelled_gives_the_backend_back_all_the_same() -> None:
    class NeverAnswers(CountedBackend):
        async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
            is_asked.set()
            never: asyncio.Future[Sequence[Enqueued]] = asyncio.get_running_loop().create_future()
            return await never

    is_asked = asyncio.Event()
    backend = NeverAnswers()
    app = App(backend)
    task: Any = app.task(name="t")(lambda: None)
    asking = asyncio.create_task(task.enqueue())
    await is_asked.wait()
    closing = asyncio.create_task(app.close())
    await asyncio.wait({closing}, timeout=0)
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    asking.cancel()
    assert backend.closed == 1


async def test_who_left_early_does_not_close_for_those_who_came_later() -> None:
    backend = CountedBackend()
    opened = connections(backend)
    await opened.enter()
    await opened.close_here()
    await opened.enter()
    await opened.leave()
    assert opened.open_here() is not None
    await opened.leave()
    assert opened.open_here() is None


@pytest.mark.promise("P-01")
async def test_a_relative_file_is_the_same_one_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App("sqlite:///jobs.db?sync=normal")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with app:
        await app.prepare()
    assert (tmp_path / "jobs.db").exists()
    assert not (tmp_path / "elsewhere" / "jobs.db").exists()
