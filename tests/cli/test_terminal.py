"""How tables look on a terminal, and that they do not elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from leasemq import App

AT = "--app=myapp:app"


def on_terminal(folder: Path, *arguments: str, columns: int = 80, **environment: str) -> str:
    """What a command prints on a terminal of that width."""
    ours, theirs = pty.openpty()
    started = [sys.executable, "-m", "leasemq", *arguments]
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    width = {"COLUMNS": str(columns), "LINES": "24"}
    with subprocess.Popen(
        started, cwd=folder, stdout=theirs, stderr=theirs, env={**inherited, **width, **environment}
    ) as command:
        os.close(theirs)
        printed = b""
        while chunk := _read(ours):
            printed += chunk
        assert command.wait(30) == 0, printed
    os.close(ours)
    return printed.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture
def filled(app: App) -> App:
    for id_ in ("short", "x" * 100, "三日本", "with\u202eturn"):
        app.tasks["send"].options(id=id_).enqueue_sync("ada")
    return app


def test_a_table_is_aligned_and_fits_the_terminal(filled: App, folder: Path) -> None:
    lines = on_terminal(folder, "jobs", AT, columns=70, NO_COLOR="1").splitlines()
    assert [len(line) <= 70 for line in lines] == [True] * 5
    assert {line.index("waiting") for line in lines[2:]} == {lines[0].index("state")} or any(
        "三日本" in line for line in lines
    )
    assert "…" in next(line for line in lines if "xxx" in line)
    assert "with\\u202eturn" in "".join(lines)
    assert "waiting" in lines[-1]


def test_the_heading_is_bold_unless_no_colour_is_wanted(filled: App, folder: Path) -> None:
    assert on_terminal(folder, "queues", AT).startswith("\x1b[1mqueue")
    assert "\x1b" not in on_terminal(folder, "queues", AT, NO_COLOR="1")


def test_elsewhere_lines_are_whole_and_separated_by_tabs(filled: App, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leasemq", "jobs", AT],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "x" * 100 in done.stdout
    assert "\x1b" not in done.stdout
    assert {line.count("\t") for line in done.stdout.splitlines()} == {5}
