"""A pytest plugin: which promises each test names, on which backend it ran, and what became of it.

Load it with `pytest_plugins = ["leasemq.testing.promise_recorder"]`, mark tests with
`@pytest.mark.promise("P-11")`, and pass `--promises-out FILE`. The backend of a test is the value of its
parameter or fixture `backend_name`. A skip whose reason begins with "left out: " says that the test does
not apply to its backend; any other skip keeps its promises unproven. Works under pytest-xdist: what a
worker knows travels in its reports.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from leasemq.testing.promises import CORE, LEFT_OUT, UNKNOWN

MARKER = "promise"
FIXTURE = "backend_name"
WORST_LAST = ("passed", LEFT_OUT, "xfailed", "skipped", "failed")


def promised(item: pytest.Item) -> list[str]:
    """The ids that a test names, on itself, its class or its module."""
    return sorted({str(name) for mark in item.iter_markers(MARKER) for name in mark.args})


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("promises")
    group.addoption(
        "--promises-out", type=Path, help="write what became of each promise's tests to this file"
    )
    group.addoption(
        "--promises-append", action="store_true", help="keep the other tests already in that file"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(*ids): the promises that the test shows")
    path = config.getoption("--promises-out")
    is_worker = hasattr(config, "workerinput")  # of pytest-xdist; its reports reach the recorder
    if path is not None and not is_worker:
        kept = _kept(path) if config.getoption("--promises-append") else {}
        config.pluginmanager.register(Recorder(path, kept), "promise-recorder")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if ids := promised(item):
        report.user_properties = [*report.user_properties, (MARKER, {"ids": ids, "backend": _backend(item)})]
    return report


class Recorder:
    """Gathers the reports of a run and writes them at its end. Owned by pytest's plugin manager."""

    def __init__(self, path: Path, kept: dict[str, dict[str, Any]]) -> None:
        self._path = path
        self._entries = kept
        self._seen: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == MARKER and isinstance(value, dict):
                self._note(report, value["ids"], value["backend"])

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        entries = sorted(self._entries.values(), key=lambda entry: str(entry["nodeid"]))
        self._path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")

    def _note(self, report: pytest.TestReport, ids: list[str], backend: str) -> None:
        outcome = _outcome(report)
        before = self._entries.get(report.nodeid) if report.nodeid in self._seen else None
        if before is not None:
            outcome = max(before["outcome"], outcome, key=WORST_LAST.index)
            backend = before["backend"] if backend == UNKNOWN else backend
        self._seen.add(report.nodeid)
        self._entries[report.nodeid] = {
            "nodeid": report.nodeid,
            "ids": ids,
            "backend": backend,
            "outcome": outcome,
        }


def _outcome(report: pytest.TestReport) -> str:
    """Tell apart why a test did not run: it is expected to fail, it does not apply, or nobody looked."""
    if report.outcome != "skipped":
        return report.outcome
    if hasattr(report, "wasxfail"):
        return "xfailed"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return LEFT_OUT if reason.startswith(f"Skipped: {LEFT_OUT}: ") else report.outcome


def _backend(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    values = {**(callspec.params if callspec is not None else {}), **getattr(item, "funcargs", {})}
    if FIXTURE in values:
        return str(values[FIXTURE])
    return UNKNOWN if FIXTURE in getattr(item, "fixturenames", ()) else CORE


def _kept(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {entry["nodeid"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}
