"""Mistakes are answered in one clear line, by a real process, and never with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

NOTHING = "error: no backend is named"
URL = "--url=sqlite:///jobs.db"


@pytest.mark.promise("A-45")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["queues"], 2, "error: no backend is named: give --url sqlite:///jobs.db"),
        (
            ["queues", "--url", "kafka://me:hunter2@host"],
            2,
            "error: no backend answers to the URL kafka://me:***@host",
        ),
        (["queues", "--url", "jobs.db"], 2, "say sqlite:///jobs.db"),
        (["queues", "--url", "mongodb://host"], 2, "error: mongodb:// comes in a later release"),
        (["queues", "--url", "memory://"], 1, "lives inside one process"),
        (["queues", "--url", "sqlite:///nowhere.db"], 1, "error: there is no file nowhere.db"),
        (["queues", "--url", "sqlite:///jobs.db?sink=full"], 2, "sink"),
        (["queues", "--url", "sqlite://jobs.db"], 2, "sqlite:///"),
        (["queues", "--app", "myapp"], 2, "say module:attribute, for example myapp:app"),
        (["queues", "--app", "../q:app"], 2, "error: '../q:app' names no app; say module:attribute"),
        (["queues", "--app", "myap:app"], 2, "error: there is no module 'myap'"),
        (["queues", "--app", "myapp.inner:app"], 2, "there is no module 'myapp.inner'"),
        (["queues", "--app", "myapp:ap"], 2, "error: module myapp has no 'ap'; it has the app app"),
        (["queues", "--app", "myapp:send"], 2, "error: myapp:send is of type AsyncTask, not an App"),
        (["queues", "--app", "json:app"], 2, "it has no App at all"),
        (["queues", "--app", "broken:app"], 2, "importing broken raised ZeroDivisionError at broken.py:2"),
        (
            ["queues", "--app", "lacking:app"],
            2,
            "importing lacking raised ModuleNotFoundError at lacking.py:1",
        ),
        (["queues", "--app", "x:y", URL], 2, "--url and --app both name a backend"),
        (["job", "nope", "--app", "myapp:app"], 1, "there is no file jobs.db"),
        (["jobs", "--state", "done", URL], 2, "'done' is not one of"),
        (["jobs", "--limit", "0", URL], 2, "0 is not in the range"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["queues", "--nonsense"], 2, "No such option '--nonsense'"),
        (["job"], 2, "Missing argument"),
        (["worker"], 2, "error: name the app to work for"),
        (["worker", "myapp:app", "--concurrency", "0"], 2, "error: concurrency=0"),
        (["worker", "myapp:app", "--lease", "nan"], 2, "error: lease=nan"),
        (["worker", "myapp:app", "--queues", "a,,b"], 2, "error: queue name"),
        (["demo", "/nonexistent/folder"], 2, "does not exist"),
        (["demo", "--sabotage", "everything"], 2, "'everything' is not one of"),
    ],
)
def test_a_mistake_is_answered_in_one_line_naming_it(
    folder: Path, leasemq_process: Command, arguments: list[str], code: int, said: str
) -> None:
    (folder / "broken.py").write_text("x = 1\nx / 0\n")
    (folder / "lacking.py").write_text("import nowhere_to_be_found\n")
    answer = leasemq_process(*arguments)
    assert answer.code == code, answer.err
    errors = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, answer.err
    assert said in errors[0]
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert "hunter2" not in answer.err
    assert not list(folder.glob("*.db*"))


def test_a_task_of_the_running_script_without_a_name_is_answered_with_the_remedy(
    folder: Path, leasemq_process: Command
) -> None:
    import subprocess
    import sys

    (folder / "script.py").write_text(
        """
import sys
from leasemq import App, LeaseMQError
app = App("sqlite:///jobs.db")

@app.task
def resize(path: str) -> None: ...

try:
    resize.enqueue_sync("x")
except LeaseMQError as error:
    sys.exit(str(error))
"""
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "name='resize'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "jobs.db").exists()


def test_the_version_and_the_help_are_told(leasemq_process: Command) -> None:
    assert leasemq_process("--version").out.startswith("leasemq ")
    told = leasemq_process("--help").out
    for command in ("worker", "queues", "jobs", "job", "dead", "demo", "config"):
        assert f"\n  {command} " in told
    assert "exactly" not in told


def test_a_closed_pipe_is_no_error(folder: Path, leasemq_process: Command) -> None:
    import os
    import subprocess
    import sys

    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "leasemq", "config"],
        cwd=folder,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode == 1
