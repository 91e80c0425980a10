"""Workers made and run by the app, on real processes where signals matter."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from leasemq import App, Ctx, JobFailed, Retry
from leasemq.errors import InvalidQueueName, InvalidSetting, Refused
from leasemq.events import Event, JobEnded, WorkerStarted


@pytest.mark.promise("A-1", "P-80")
async def test_a_worker_runs_async_functions_in_the_loop_and_plain_ones_in_threads(app: App) -> None:
    loop_thread = threading.get_ident()

    @app.task(name="swift")
    async def swift(n: int) -> bool:
        return threading.get_ident() == loop_thread

    @app.task(name="slow")
    def slow(n: int) -> bool:
        return threading.get_ident() == loop_thread

    @app.task(name="told")
    async def told(ctx: Ctx, n: int) -> list[Any]:
        return [ctx.task, ctx.queue, ctx.attempt, n]

    async with app:
        worker = app.worker(concurrency=3)
        running = asyncio.ensure_future(worker.run())
        assert await (await swift.enqueue(1)).result(timeout=20) is True
        assert await (await slow.enqueue(1)).result(timeout=20) is False
        assert await (await told.enqueue(7)).result(timeout=20) == ["told", "default", 1, 7]
        worker.stop()
        assert await running == 0


@pytest.mark.promise("P-20", "P-21", "A-9", "E-12")
async def test_a_job_s_own_retry_policy_wins_over_the_task_s_and_the_app_s(url: str) -> None:
    app = App(url, retry=Retry(1, base=0))
    runs: dict[str, int] = {}

    def count(key: str) -> None:
        runs[key] = runs.get(key, 0) + 1
        raise ValueError(key)

    of_app = app.task(name="of_app")(count)
    of_task = app.task(name="of_task", retry=Retry(2, base=0))(count)
    never = app.task(name="never", retry=None)(count)
    async with app:
        worker = app.worker(concurrency=4)
        running = asyncio.ensure_future(worker.run())
        jobs = [
            await of_app.enqueue("app"),
            await of_task.enqueue("task"),
            await never.enqueue("never"),
            await of_app.options(retry=Retry(3, base=0)).enqueue("job"),
        ]
        for job in jobs:
            with pytest.raises(JobFailed, match="ValueError"):
                await job.result(timeout=20)
        worker.stop()
        await running
    assert runs == {"app": 2, "task": 3, "never": 1, "job": 4}


async def test_a_worker_takes_the_queues_of_its_tasks_the_settings_or_its_options(url: str) -> None:
    app = App(url)
    app.task(name="a", queue="mail")(lambda: 1)
    app.task(name="b", queue="sms")(lambda: 1)
    app.task(name="c", queue="mail")(lambda: 1)
    chosen = App(url, queues=["x"], concurrency=3, lease=9, drain=4)
    async with app, chosen:
        assert app.worker().settings.queues == ("mail", "sms")
        assert app.worker(queues=["one"]).settings.queues == ("one",)
        assert app.worker(queues={"one": 3, "two": 1}).settings.queues == {"one": 3, "two": 1}
        settings = chosen.worker(name="w", heartbeat=2, sweep_every=1, sweep=False).settings
        assert (settings.queues, settings.concurrency, settings.name) == (("x",), 3, "w")
        assert (settings.lease_ms, settings.heartbeat_ms, settings.drain_ms) == (9_000, 2_000, 4_000)
        assert (settings.sweep, settings.sweep_every_ms) == (False, 1_000)
        assert chosen.worker(lease=1, drain=0, concurrency=5).settings.lease_ms == 1_000


@pytest.mark.promise("P-18", "A-16")
@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"concurrency": 0}, InvalidSetting, "concurrency"),
        ({"lease": 0}, InvalidSetting, "lease"),
        ({"lease": 3, "heartbeat": 3}, InvalidSetting, "heartbeat"),
        ({"queues": "mail"}, InvalidSetting, r"\['mail'\]"),
        ({"queues": []}, InvalidSetting, "queues"),
        ({"queues": ["a\n"]}, InvalidQueueName, "control"),
        ({"drain": float("inf")}, ValueError, "drain"),
        ({"leases": 3}, TypeError, "leases"),
    ],
)
async def test_a_bad_option_of_a_worker_is_refused_before_anything_starts(
    options: dict[str, Any], error: type[Exception], fault: str
) -> None:
    app = App("memory://")
    async with app:
        with pytest.raises(error, match=fault):
            app.worker(**options)


async def test_a_worker_is_made_inside_an_open_app() -> None:
    with pytest.raises(Refused, match="async with app"):
        App("memory://").worker()


async def test_an_observer_hears_what_happens() -> None:
    heard: list[Event] = []
    app = App("memory://")

    @app.task(name="t")
    async def t() -> None: ...

    async with app:
        worker = app.worker(observer=heard.append)
        running = asyncio.ensure_future(worker.run())
        await (await t.enqueue()).result(timeout=10)
        worker.stop()
        await running
    assert isinstance(heard[0], WorkerStarted)
    assert "t" in [event.task for event in heard if isinstance(event, JobEnded)]


SCRIPT = """
import asyncio, sys
from leasemq import App
app = App("sqlite:///{folder}/jobs.db?sync=normal")

@app.task(name="wait")
async def wait(n: int) -> int:
    print("started", flush=True)
    await asyncio.sleep(n)
    return n

if __name__ == "__main__":
    sys.exit(app.run_worker(concurrency=1, lease=5, drain={drain}))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


@pytest.mark.promise("P-81", "A-16")
@pytest.mark.parametrize("wired", [signal.SIGTERM, signal.SIGINT])
def test_run_worker_drains_at_the_first_signal_and_answers_0(
    script: Path, tmp_path: Path, wired: signal.Signals
) -> None:
    script.write_text(SCRIPT.format(folder=tmp_path, drain=20))
    app = App(f"sqlite:///{tmp_path}/jobs.db?sync=normal")
    wait = app.task(name="wait")(lambda n: n)
    job = wait.enqueue_sync(1)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        worker.send_signal(wired)
        assert worker.wait(20) == 0
    assert job.result_sync(timeout=0) == 1


@pytest.mark.promise("P-81", "B12")
def test_run_worker_releases_at_the_second_signal_and_answers_non_zero(script: Path, tmp_path: Path) -> None:
    script.write_text(SCRIPT.format(folder=tmp_path, drain=60))
    app = App(f"sqlite:///{tmp_path}/jobs.db?sync=normal")
    wait = app.task(name="wait")(lambda n: n)
    job = wait.enqueue_sync(600)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)
        assert worker.wait(20) != 0
    record = job.record_sync()
    assert (record.state, record.failures, record.stalls) == ("waiting", 0, 0)
    assert record.history[-1].outcome == "released"
