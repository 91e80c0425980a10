"""Commands whose streams are closed or full, or whose folder is gone: one line, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leasemq import App

LEASEMQ = f"'{sys.executable}' -m leasemq"


def in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in the folder."""
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_closed_stdout_is_no_error(app: App, folder: Path) -> None:
    app.call_sync(app.prepare)
    ended = in_shell(folder, f"{LEASEMQ} queues --url sqlite:///jobs.db >&-")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_stdout_is_one_line(folder: Path) -> None:
    ended = in_shell(folder, f"{LEASEMQ} config >/dev/full")
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == ["error: the answer could not be written: No space left on device"]


def test_a_question_without_an_input_is_wrong_use(app: App, folder: Path) -> None:
    app.call_sync(app.prepare)
    ended = in_shell(folder, f"{LEASEMQ} drain default --url sqlite:///jobs.db <&-")
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == "error: nobody can be asked, since there is no input; say --yes"


def test_a_deleted_folder_stops_nothing_that_does_not_need_it(app: App, folder: Path) -> None:
    app.call_sync(app.prepare)
    line = f"mkdir gone && cd gone && rmdir ../gone && {LEASEMQ} queues --url sqlite:///{folder}/jobs.db"
    ended = in_shell(folder, line)
    assert (ended.returncode, ended.stderr) == (0, "")
    ended = in_shell(folder, f"mkdir gone && cd gone && rmdir ../gone && {LEASEMQ} worker myapp:app")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
