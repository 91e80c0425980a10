"""The kit as its users meet it: suites of their own, in a folder of their own, run by their own pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.promise("A-49")

SETTINGS = """
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

TASKS = """
from leasemq import App

app = App("sqlite:///jobs.db")
sent = []


@app.task(name="mail")
async def mail(to: str) -> str:
    sent.append(to)
    return f"sent to {to}"


@app.task(name="report")
def report(pages: int) -> int:
    if pages == 0:
        raise ValueError("an empty report")
    return pages
"""

SUITE = """
import unittest

import pytest

import tasks
from leasemq.testing import Harness


@pytest.fixture
def leasemq_app():
    return tasks.app


@pytest.mark.asyncio
async def test_in_a_loop(leasemq_jobs):
    job = await tasks.mail.enqueue("a")
    assert (await leasemq_jobs.run_until_idle()).completed == 1
    assert await job.result() == "sent to a"


def test_without_a_loop(leasemq_jobs):
    job = tasks.mail.enqueue_sync("b")
    assert leasemq_jobs.run_until_idle_sync().completed == 1
    assert job.result_sync() == "sent to b"


class TestInline:
    @pytest.fixture
    def leasemq_options(self):
        return {"inline": True}

    def test_inline(self, leasemq_jobs):
        assert tasks.report.enqueue_sync(3).result_sync() == 3


class TestOfUnittest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.jobs = await self.enterAsyncContext(Harness(tasks.app))

    async def test_the_error_is_raised(self):
        await tasks.report.enqueue(0)
        with self.assertRaisesRegex(ValueError, "an empty report"):
            await self.jobs.run_until_idle(raise_errors=True)
"""

WITHOUT_AN_APP = """
def test_it(leasemq_jobs): ...
"""

UNCONCERNED = """
import sys


def test_it(request):
    assert request.config.pluginmanager.has_plugin("leasemq")
    assert {name for name in sys.modules if name.startswith("leasemq.")} <= {
        "leasemq.testing", "leasemq.testing.pytest_plugin"
    }
    assert not [one for one in request.fixturenames if one.startswith("leasemq")]
"""

BACKEND = """
from leasemq.backends.memory import MemoryBackend


class MyBackend:
    def __init__(self, clock):
        self._inner = MemoryBackend(clock=clock)

    def __getattr__(self, operation):
        return getattr(self._inner, operation)


class ForgetsFences(MyBackend):
    async def settle(self, queue, settlements):
        await self._inner.settle(queue, settlements)
        return tuple("applied" for _ in settlements)
"""

BACKEND_SUITE = """
import pytest
from leasemq.testing.conformance import *

from my_backend import {name}


@pytest.fixture
def open_backend(clock):
    mine = {name}(clock)
    return lambda: mine
"""


def run_suite(folder: Path, files: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder with these files, as somebody who has LeaseMQ installed."""
    for name, text in {"pytest.ini": SETTINGS, **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_a_suite_of_any_style_runs_without_a_worker_process(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, {"tasks.py": TASKS, "test_tasks.py": SUITE})
    assert "4 passed" in ran.stdout, ran.stdout + ran.stderr
    assert not (tmp_path / "jobs.db").exists()  # the app's own store is left alone


def test_the_fixture_says_what_it_needs(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, {"test_it.py": WITHOUT_AN_APP})
    assert "leasemq_jobs needs a fixture leasemq_app" in ran.stdout, ran.stdout + ran.stderr


def test_a_suite_that_asks_for_nothing_notices_nothing(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, {"test_it.py": UNCONCERNED}, "-p", "no:asyncio", "-c", "/dev/null")
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_program_that_runs_loads_nothing_of_the_kit() -> None:
    code = (
        "import sys, leasemq; leasemq.App('memory://'); print([one for one in sys.modules"
        " if one.startswith(('leasemq.testing', 'pytest', '_pytest'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


@pytest.mark.parametrize(("name", "is_sound"), [("MyBackend", True), ("ForgetsFences", False)])
def test_the_conformance_suite_runs_on_a_backend_of_somebody_else(
    tmp_path: Path, name: str, is_sound: bool
) -> None:
    settings = SETTINGS + "asyncio_mode = auto\nmarkers = promise(*ids): the promises that a test shows\n"
    files = {
        "pytest.ini": settings,
        "my_backend.py": BACKEND,
        "test_backend.py": BACKEND_SUITE.format(name=name),
    }
    ran = run_suite(tmp_path, files, "-k", "settlement_repeated")
    assert (ran.returncode == 0) is is_sound, ran.stdout + ran.stderr
    assert f" {'passed' if is_sound else 'failed'}" in ran.stdout
