"""What `leasemq worker` writes: the library's log, the user's own lines, and no secret in either."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest

from leasemq import App, JobFailed, Secret
from tests.cli.conftest import Command

PASSWORD, ARGUMENT = "hunter2", "s3cr3t-argument"
URL = f"redis://ada:{PASSWORD}@db.example/0"

TALKING = f"""
import logging
from typing import Annotated
from leasemq import App, Secret

root = logging.getLogger()
before = (list(root.handlers), root.level, list(root.filters))
app = App("sqlite:///jobs.db?sync=normal")

@app.task(name="talk", executor="auto")
def talk(key: Annotated[str, Secret]) -> str:
    logging.getLogger("mine").info("not asked for")
    logging.getLogger("mine").warning("careful")
    logging.getLogger("mine").warning("connecting to {URL}")
    assert (list(root.handlers), root.level, list(root.filters)) == before
    return "untouched"

@app.task(name="fail")
def fail(key: Annotated[str, Secret]) -> None:
    raise ConnectionError(f"{URL} refused the key {{key}}")
"""


def takes_secret(key: Annotated[str, Secret]) -> str:
    """The producer's view of the tasks."""
    return key


def run_both(app: App, folder: Path, *options: str, executor: str = "auto") -> list[str]:
    """Let a worker run one job that talks and one that fails, and answer the lines of its log."""
    (folder / "talking.py").write_text(TALKING.replace('"auto"', repr(executor)))
    talk, fail = app.task(name="talk")(takes_secret), app.task(name="fail")(takes_secret)
    jobs = [talk.options(id="talks").enqueue_sync(ARGUMENT), fail.options(id="fails").enqueue_sync(ARGUMENT)]
    started = [
        sys.executable,
        "-m",
        "leasemq",
        "worker",
        "talking:app",
        "--name",
        "w",
        "--log-level",
        "DEBUG",
    ]
    with subprocess.Popen([*started, *options], cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert jobs[0].result_sync(timeout=30) == "untouched"
            with pytest.raises(JobFailed):
                jobs[1].result_sync(timeout=30)
        finally:
            worker.send_signal(signal.SIGTERM)
            _, log = worker.communicate(timeout=30)
        assert worker.returncode == 0
    assert PASSWORD not in log
    assert ARGUMENT not in log
    return log.splitlines()


@pytest.mark.promise("A-43", "P-102")
@pytest.mark.parametrize("executor", ["auto", "process"])
def test_a_users_warning_is_written_with_its_job_and_the_root_logger_stays_as_it_was(
    app: App, folder: Path, executor: str
) -> None:
    lines = run_both(app, folder, executor=executor)
    (careful,) = [line for line in lines if "careful" in line]
    assert " WARNING [w] mine: careful (ref=default/talks#1 task=talk attempt=1 fence=" in careful
    assert not any("not asked for" in line for line in lines)
    assert any("connecting to redis://ada:***@db.example/0" in line for line in lines)


@pytest.mark.promise("A-43", "P-102")
@pytest.mark.parametrize("executor", ["auto", "process"])
def test_every_line_about_a_job_names_its_attempt_in_json(app: App, folder: Path, executor: str) -> None:
    lines = [json.loads(line) for line in run_both(app, folder, "--json", executor=executor)]
    about = [line for line in lines if "talks" in line["message"] or line.get("job") is not None]
    assert len(about) >= 6
    for line in about:
        assert {
            "worker",
            "incarnation",
            "queue",
            "task",
            "job",
            "generation",
            "attempt",
            "fence",
        } <= line.keys()
    assert {line["logger"] for line in about} == {"leasemq", "mine"}


@pytest.mark.promise("P-102")
def test_no_command_shows_a_secret_argument_or_the_password_in_a_url(
    app: App, folder: Path, leasemq: Command
) -> None:
    run_both(app, folder)
    place = "--url=sqlite:///jobs.db"
    shown = [
        leasemq(*command, *shape, place)
        for command in (["job", "fails"], ["job", "talks"], ["jobs"], ["dead"], ["doctor"], ["workers"])
        for shape in ([], ["--json"])
    ]
    assert all(answer.code == 0 for answer in shown)
    assert not any(ARGUMENT in answer.out + answer.err for answer in shown)
    assert not any(PASSWORD in answer.out + answer.err for answer in shown)


@pytest.mark.promise("P-102")
@pytest.mark.parametrize("command", ["config", "doctor", "jobs", "workers"])
@pytest.mark.parametrize(
    "url", [URL, f"sqlite:///jobs.db?password={PASSWORD}", f"nonsense://a:{PASSWORD}@h/x"]
)
def test_a_url_that_is_refused_shows_no_password(leasemq: Command, command: str, url: str) -> None:
    answer = leasemq(command, "--url", url)
    assert PASSWORD not in answer.out + answer.err


@pytest.mark.promise("P-102")
def test_an_app_that_cannot_be_loaded_because_of_its_url_shows_no_password(
    leasemq: Command, folder: Path
) -> None:
    (folder / "broken_place.py").write_text(f"raise ConnectionError({f'no route to {URL}'!r})")
    answer = leasemq("worker", "broken_place:app")
    assert answer.code == 2
    assert PASSWORD not in answer.out + answer.err
    assert "redis://ada:***@db.example/0" in answer.err


@pytest.mark.promise("P-84")
def test_a_probe_port_that_is_taken_is_one_line_before_any_job_is_claimed(
    app: App, folder: Path, leasemq_process: Command
) -> None:
    import socket

    app.tasks["add"].enqueue_sync(1, 2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for more in ([], ["--processes", "2"]):
            answer = leasemq_process("worker", "myapp:app", "--probe-port", str(port), *more)
            assert answer.code == 2
            assert answer.err.splitlines()[-1].startswith(f"error: probes cannot be answered on port {port}")
            assert "WorkerStarted" not in answer.err


@pytest.mark.promise("A-16")
def test_the_help_of_the_worker_lists_its_exit_codes(leasemq: Command) -> None:
    told = leasemq("worker", "--help").out
    for code in ("0", "1", "2", "70", "75"):
        assert f"\n  {code:>4}  " in told or f" {code}  " in told
    assert "--supervised" not in told
