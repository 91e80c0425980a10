"""The face for callers without an event loop: scripts, threads, forked children."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leasemq import App, State
from leasemq.client.ids import _ids, new_job_id
from leasemq.client.loop_thread import LoopThread, loop_thread
from leasemq.errors import (
    IndeterminateWrite,
    JobNotFound,
    PayloadRejected,
    SyncInsideLoop,
    WaitTimeout,
    WouldDeadlock,
)
from leasemq.protocol.insight import CancelAnswer
from leasemq.task import Task
from tests.app.holder import Holder


@pytest.fixture
def task(app: App) -> Any:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    yield t
    loop_thread().close()


@pytest.mark.promise("A-48")
def test_everything_a_script_needs_has_a_synchronous_twin(app: App, task: Task[[int], Any]) -> None:
    job = task.enqueue_sync(1)
    assert job.created
    assert job.state_sync() is State.WAITING
    assert job.record_sync().task == "t"
    assert [one.created for one in task.enqueue_many_sync([(1,), (2,)])] == [True, True]
    assert task.options(id="x", delay=60).enqueue_sync(1).state_sync() is State.SCHEDULED
    assert task.options(queue="b").enqueue_many_sync([(1,)])[0].queue == "b"
    with pytest.raises(WaitTimeout):
        job.result_sync(timeout=0.01)
    app.call_sync(lambda: Holder(app).returns_next(task, "value"))
    assert job.result_sync(timeout=5) == "value"
    assert job.cancel_sync() is CancelAnswer.FINISHED
    assert app.call_sync(app.queue().counts).completed == 1


def test_an_error_reaches_the_caller(task: Task[[int], Any]) -> None:
    with pytest.raises(PayloadRejected, match="n"):
        task.enqueue_sync("one")  # type: ignore[arg-type]  # a text is the point
    with pytest.raises(JobNotFound):
        task.job("unknown").result_sync()


async def test_a_synchronous_call_inside_a_running_loop_is_refused_with_what_to_await(
    app: App, task: Task[[int], Any]
) -> None:
    with pytest.raises(SyncInsideLoop, match=r"await task\.enqueue"):
        task.enqueue_sync(1)
    with pytest.raises(SyncInsideLoop, match=r"await job\.result"):
        task.job("x").result_sync()
    with pytest.raises(SyncInsideLoop):
        app.call_sync(app.queue().pause)


@pytest.mark.promise("P-40")
def test_many_threads_share_one_loop_thread(app: App, task: Task[[int], Any]) -> None:
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(task.enqueue_sync, range(400)))
    assert len({job.id for job in jobs}) == 400
    assert app.call_sync(app.queue().counts).accepted == 400
    assert [thread.name for thread in threading.enumerate()].count("leasemq-sync") == 1


def test_an_app_that_was_closed_is_not_kept_and_one_in_use_is_closed_with_the_thread(app: App) -> None:
    import gc
    import weakref

    def used_and_closed() -> weakref.ref[App]:
        other = App("memory://")
        other.call_sync(other.prepare)
        other.call_sync(other.close)
        return weakref.ref(other)

    gone = used_and_closed()
    gc.collect()
    assert gone() is None
    app.call_sync(app.prepare)

    async def opened_and_closed_elsewhere() -> None:
        async with app:
            pass

    asyncio.run(opened_and_closed_elsewhere())
    assert len(loop_thread()._closers) == 1
    loop_thread().close()
    assert app._connections._places == {}


def test_both_faces_of_an_app_see_the_same_jobs(app: App, task: Task[[int], Any]) -> None:
    job = task.enqueue_sync(1)

    async def end() -> None:
        async with app:
            assert await job.state() is State.WAITING
            await Holder(app).returns_next(task, 5)

    asyncio.run(end())
    assert job.result_sync(timeout=5) == 5


def test_a_result_that_another_thread_waits_for_arrives(app: App, task: Task[[int], Any]) -> None:
    job = task.enqueue_sync(1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(job.result_sync, 10)
        app.call_sync(lambda: Holder(app).returns_next(task, "value"))
        assert waiting.result(10) == "value"


def test_a_closed_loop_thread_starts_again_with_the_next_call() -> None:
    thread = LoopThread()
    closed: list[str] = []

    async def answer() -> int:
        return 3

    async def closer() -> None:
        closed.append("closed")

    async def open_something() -> int:
        thread.at_close(1, closer)
        return 3

    assert thread.call(open_something, "it") == 3
    thread.close()
    assert (closed, thread.is_running) == (["closed"], False)
    thread.close()
    assert thread.call(answer, "it") == 3
    thread.close()
    assert closed == ["closed"]


@pytest.mark.promise("A-48")
@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_an_exit_that_a_call_raises_is_its_caller_s_alone(leaving: BaseException) -> None:
    thread = LoopThread()

    async def leave() -> None:
        raise leaving

    async def answer() -> int:
        return 3

    async def other() -> int:
        await asyncio.to_thread(has_left.wait, 10)
        return 4

    has_left = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(thread.call, other, "it")
        with pytest.raises(type(leaving)):
            thread.call(leave, "it")
        has_left.set()
        assert waiting.result(10) == 4
    assert thread.call(answer, "it") == 3
    thread.close()


@pytest.mark.promise("A-48")
def test_a_caller_whose_loop_ends_is_told_and_the_next_call_starts_another() -> None:
    thread = LoopThread()
    is_asked = threading.Event()

    async def wait() -> None:
        is_asked.set()
        await asyncio.Event().wait()

    async def answer() -> int:
        return 3

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(thread.call, wait, "job.result()")
        assert is_asked.wait(10)
        thread.close()
        with pytest.raises(IndeterminateWrite, match=r"job\.result\(\) was cancelled"):
            waiting.result(10)
    assert thread.call(answer, "it") == 3
    thread.close()


@pytest.mark.promise("A-48")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it ends the thread
def test_a_loop_that_something_in_it_ended_is_replaced_at_the_next_call() -> None:
    thread = LoopThread()

    def leave() -> None:
        raise SystemExit

    async def poison() -> None:
        asyncio.get_running_loop().call_soon(leave)
        await asyncio.Event().wait()

    async def answer() -> int:
        return 3

    with pytest.raises(IndeterminateWrite, match="it was cancelled"):
        thread.call(poison, "it")
    assert thread._running is not None
    thread._running.thread.join(10)
    assert thread.call(answer, "it") == 3
    thread.close()


def test_a_call_from_a_signal_s_handler_in_the_middle_of_another_is_answered() -> None:
    thread = LoopThread()

    async def answer() -> int:
        assert new_job_id()  # as an enqueue does, in the thread of the loop
        return 3

    for _ in ("the first call starts the thread", "the second one finds it"):
        with thread._starting, _ids._lock:  # what the interrupted call of this thread may hold
            assert thread.call(answer, "it") == 3
            assert new_job_id()
    thread.close()


@pytest.mark.promise("A-48")
def test_a_thread_that_calls_when_the_interpreter_ends_is_told_so(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    program.write_text(
        f"""
import threading
from leasemq import App
from leasemq.errors import BackendUnavailable
app = App("sqlite:///{tmp_path}/jobs.db")

@app.task(name="t")
def t() -> None: ...

def late() -> None:
    threading.main_thread().join(30)
    try:
        t.enqueue_sync()
    except BackendUnavailable as error:
        print(error)
    else:
        print("stored, although the interpreter is ending")

threading.Thread(target=late).start()
"""
    )
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    assert "the interpreter is ending" in ran.stdout
    assert ran.stderr == ""


@pytest.mark.promise("P-60")
def test_waiting_synchronously_inside_a_running_job_is_refused_too(app: App) -> None:
    inner = app.task(name="inner")(lambda: 1)

    @app.task(name="outer")
    def outer() -> str:
        job = inner.enqueue_sync()
        try:
            job.result_sync(timeout=5)
        except WouldDeadlock:
            return "refused"
        return "waited"

    async def run() -> str:
        async with app:
            worker = app.worker(concurrency=1, queues=["default"])
            running = asyncio.ensure_future(worker.run())
            answer = await (await outer.enqueue()).result(timeout=10)
            worker.stop()
            await running
            return answer

    assert asyncio.run(run()) == "refused"
    loop_thread().close()


@pytest.mark.promise("B43")
def test_a_fork_after_connecting_gives_each_child_a_connection_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "forking.py"
    program.write_text(
        f"""
import os
from leasemq import App
app = App("sqlite:///{tmp_path}/jobs.db?sync=normal")

@app.task(name="t")
def t(n: int) -> int:
    return n

t.enqueue_sync(0)
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        for n in range(50):
            t.enqueue_sync(n)
        t.enqueue_many_sync([(n,) for n in range(200)])
        raise SystemExit(0)
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
t.enqueue_sync(0)
print(codes, app.call_sync(app.queue().counts).accepted)
"""
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error", program], capture_output=True, text=True, check=False, timeout=100
    )
    assert answer.stdout.strip() == "[0, 0, 0, 0] 1002", answer.stderr
    assert answer.stderr == ""


def test_a_script_ends_by_itself_and_without_a_warning(tmp_path: Path, url: str) -> None:
    program = tmp_path / "script.py"
    program.write_text(
        f"""
from leasemq import App
app = App({url!r})

@app.task(name="t")
def t() -> None: ...

print(t.enqueue_sync().created)
"""
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (answer.stdout.strip(), answer.stderr, answer.returncode) == ("True", "", 0)
