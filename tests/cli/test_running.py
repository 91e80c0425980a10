"""`leasemq worker` and `leasemq demo` as processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import leasemq
from leasemq import App
from tests.cli.conftest import Command
from tests.end_to_end.waiting import until
from tests.serving.ask import ask


@pytest.mark.promise("A-1", "A-16", "P-81", "P-60")
def test_a_worker_process_runs_what_another_process_enqueues_and_waits_for(app: App, folder: Path) -> None:
    job = app.tasks["send"].enqueue_sync("ada", "hunter2")
    bad = app.tasks["send"].enqueue_sync("nobody")
    started = [sys.executable, "-m", "leasemq", "worker", "myapp:app", "--concurrency", "2", "--name", "w1"]
    with subprocess.Popen(started, cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert job.result_sync(timeout=30) == "sent to ada"
            with pytest.raises(leasemq.JobFailed, match="no such address"):
                bad.result_sync(timeout=30)
            assert app.tasks["add"].enqueue_sync(2, 3).result_sync(timeout=30) == 5
            assert [one.worker for one in app.call_sync(app.workers)] == ["w1"]
        finally:
            worker.send_signal(signal.SIGTERM)
            _, log = worker.communicate(timeout=30)
        assert worker.returncode == 0
    assert "durability D1" in log
    assert "ValueError" in log
    assert "hunter2" not in log
    assert "Traceback" not in log
    assert job.record_sync().history[0].worker == "w1"


@pytest.mark.promise("A-43")
def test_the_log_of_a_worker_can_be_json(app: App, folder: Path) -> None:
    job = app.tasks["add"].enqueue_sync(1, 1)
    started = [sys.executable, "-m", "leasemq", "worker", "myapp:app", "--json", "--log-level", "DEBUG"]
    with subprocess.Popen(started, cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
        try:
            job.result_sync(timeout=30)
        finally:
            worker.send_signal(signal.SIGINT)
            _, log = worker.communicate(timeout=30)
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in lines)
    (ended,) = [line for line in lines if line.get("event") == "JobEnded"]
    told = {name: ended[name] for name in ("queue", "task", "job", "generation", "attempt", "outcome")}
    assert told == {
        "queue": "default",
        "task": "add",
        "job": job.id,
        "generation": 1,
        "attempt": 1,
        "outcome": "completed",
    }
    assert ended["fence"] > 0
    assert len(ended["incarnation"]) == 32
    assert len({line.get("incarnation") for line in lines if "event" in line}) == 1


def test_only_the_queues_that_are_named_are_worked_on(app: App, folder: Path) -> None:
    mail, other = app.tasks["send"].enqueue_sync("ada"), app.tasks["add"].enqueue_sync(1, 1)
    started = [sys.executable, "-m", "leasemq", "worker", "myapp:app", "--queues", "mail", "--drain", "1"]
    with subprocess.Popen(started, cwd=folder, stderr=subprocess.DEVNULL) as worker:
        try:
            mail.result_sync(timeout=30)
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
    assert other.state_sync() == "waiting"


def test_the_demo_is_given_what_was_typed_and_its_code_is_the_answer(
    leasemq: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    def run_demo(folder: Path | None, sabotage: str | None, jobs: int | None, as_json: bool) -> int:
        given.append((folder, sabotage, jobs, as_json))
        return 1 if sabotage else 0

    monkeypatch.setattr("leasemq.demo.run_demo", run_demo)
    assert leasemq("demo").code == 0
    assert leasemq("demo", str(folder), "--sabotage", "fence", "--jobs", "7", "--json").code == 1
    assert given == [(None, None, None, False), (folder, "fence", 7, True)]


@pytest.mark.promise("P-84")
def test_a_worker_process_answers_probes_until_it_is_gone(app: App, folder: Path) -> None:
    started = [sys.executable, "-m", "leasemq", "worker", "myapp:app", "--probe-port", "0"]
    with subprocess.Popen(started, cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stderr is not None
            port = int(worker.stderr.readline().rpartition(" ")[2])
            until(lambda: ask(port, "/ready").status == 200, "it is ready")
            asked = ask(port, "/live")
            assert (asked.status, asked.body["slots"], asked.body["backend"]) == (200, 10, "reachable")
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=30)
        assert worker.returncode == 0


@pytest.mark.slow
@pytest.mark.promise("P-82", "B12")
def test_a_supervisor_told_to_stop_while_a_process_is_dead_does_not_say_that_all_is_well(
    folder: Path,
) -> None:
    (folder / "leaving.py").write_text("raise SystemExit(3)")
    started = [sys.executable, "-m", "leasemq", "worker", "leaving:app", "--processes", "1", "--name", "w"]
    with subprocess.Popen(started, cwd=folder, stderr=subprocess.PIPE, text=True) as supervisor:
        try:
            assert supervisor.stderr is not None
            waits_ms: list[int] = []
            while len(waits_ms) < 3:
                waits_ms += map(
                    int, re.findall(r"exit_code=3 restart_in_ms=(\d+)", supervisor.stderr.readline())
                )
        finally:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.communicate(timeout=30)
        assert supervisor.returncode == 1
    assert waits_ms[-1] >= 500
