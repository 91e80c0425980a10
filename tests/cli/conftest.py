"""A folder with an app in it, as a user has one, and ways to run the command line there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import leasemq.backends.sqlite  # it reads files when first imported: not in a loop
from leasemq import App
from leasemq.cli import main
from leasemq.client.loop_thread import loop_thread

MYAPP = """
from typing import Annotated
from leasemq import App, Secret

app = App("sqlite:///jobs.db?sync=normal")

@app.task(name="send", queue="mail")
async def send(to: str, password: Annotated[str, Secret] = "") -> str:
    if to == "nobody":
        raise ValueError("no such address")
    return f"sent to {to}"

@app.task(name="add")
def add(a: int, b: int) -> int:
    return a + b
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with an app; nothing of this machine's settings reaches it."""
    (tmp_path / "myapp.py").write_text(MYAPP)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LEASEMQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "myapp", raising=False)
    return tmp_path


@pytest.fixture
def leasemq(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Answer(code=code, out=printed.out, err=printed.err)

    return run


@pytest.fixture
def leasemq_process(folder: Path) -> Command:
    """Run a command in a process of its own."""

    def run(*arguments: str, **environment: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "leasemq", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, **environment},
        )
        return Answer(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture
def app(folder: Path) -> Iterator[App]:
    """The app of the folder's store, for what a test does beside the command line."""
    app = App(f"sqlite:///{folder}/jobs.db?sync=normal")
    app.task(name="send", queue="mail")(lambda to, password="": f"sent to {to}")
    app.task(name="add")(lambda a, b: a + b)
    yield app
    loop_thread().close()
