"""What systemd is told, and that nothing depends on its hearing it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leasemq.serving.attendant import Attendant
from leasemq.serving.notify import systemd
from leasemq.serving.view import View
from tests.serving.ask import Manager, service_socket

STARTING = View(startup=False, ready=False, live=True, facts={"phase": "starting"})
READY = View(startup=True, ready=True, live=True, facts={"phase": "claiming", "running": 0})
BUSY = View(startup=True, ready=True, live=True, facts={"phase": "claiming", "running": 3})
DEAD = View(startup=True, ready=True, live=False, facts={"phase": "claiming"})
STOPPING = View(startup=True, ready=False, live=True, is_stopping=True, facts={"phase": "draining"})


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.promise("P-84")
@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_hears_each_change_once_and_a_beat_only_while_the_worker_is_live(
    tmp_path: Path, kind: str
) -> None:
    address = service_socket(tmp_path) if kind == "path" else f"@leasemq-{os.getpid()}-{tmp_path.name}"
    manager, clock = Manager(address), Clock()
    told = systemd({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "10000000"}, clock)
    assert told is not None
    for view in (STARTING, READY, READY, BUSY):
        told.hear(view)
    clock.now_ms += 3_000
    told.hear(BUSY)
    clock.now_ms += 3_000
    told.hear(DEAD)
    told.hear(STOPPING)
    assert [manager.notices() for _ in range(6)] == [
        ["STATUS=phase starting", "WATCHDOG=1"],
        ["READY=1", "STATUS=phase claiming, running 0"],
        ["STATUS=phase claiming, running 3"],
        ["WATCHDOG=1"],
        ["STATUS=not live; phase claiming"],
        ["STOPPING=1", "STATUS=phase draining", "WATCHDOG=1"],
    ]
    manager.close()


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "@"}, {"NOTIFY_SOCKET": "vsock:1:2"}],
)
def test_nobody_is_told_where_nobody_asks(environment: dict[str, str]) -> None:
    assert systemd(environment, Clock()) is None


@pytest.mark.parametrize(
    ("more", "watchdog_ms"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3_000),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3_000),
    ],
)
def test_a_watchdog_is_fed_by_the_process_that_it_is_meant_for(
    more: dict[str, str], watchdog_ms: int | None
) -> None:
    told = systemd({"NOTIFY_SOCKET": "/nowhere", **more}, Clock())
    assert told is not None
    assert told.watchdog_ms == watchdog_ms


@pytest.mark.promise("P-84")
def test_a_manager_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    address = service_socket(tmp_path)
    with Attendant(environment={"NOTIFY_SOCKET": address}) as attendant:
        assert not attendant.view().ready
    told = systemd({"NOTIFY_SOCKET": address}, Clock())
    assert told is not None
    told.hear(READY)


@pytest.mark.slow
@pytest.mark.promise("P-81", "P-84")
@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["one", "several"])
def test_a_worker_process_tells_systemd_when_it_is_ready_that_it_lives_and_that_it_stops(
    tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "app.py").write_text("from leasemq import App\napp = App('sqlite:///jobs.db?sync=normal')\n")
    manager = Manager(service_socket(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-m", "leasemq", "worker", "app:app", *options],
        cwd=tmp_path,
        env=os.environ | {"NOTIFY_SOCKET": service_socket(tmp_path), "WATCHDOG_USEC": "2000000"},
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            manager.wait_for("READY=1")
            manager.wait_for("WATCHDOG=1")
        finally:
            worker.send_signal(signal.SIGTERM)
        manager.wait_for("STOPPING=1")
        worker.communicate(timeout=30)
    assert worker.returncode == 0
    manager.close()
