"""Tells systemd how a service is: sd_notify(3), in so far as a worker needs it.

A notice that cannot be delivered is dropped: what runs the jobs must not depend on who watches it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from leasemq.clock import Clock
from leasemq.serving.view import View

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
VARIABLES = (SOCKET, WATCHDOG_US, WATCHDOG_PID)


class Systemd:
    """The service manager's ear. Owner: the thread that tells."""

    def __init__(self, path: str, watchdog_ms: int | None, clock: Clock) -> None:
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self._clock = clock
        self.watchdog_ms = watchdog_ms
        self._is_ready_told = False
        self._is_stopping_told = False
        self._status = ""
        self._alive_told_ms: int | None = None

    def hear(self, view: View) -> None:
        """Tell what changed, and, while it is live, that it is so."""
        notices: list[str] = []
        if view.ready and not self._is_ready_told:
            self._is_ready_told = True
            notices.append("READY=1")
        if view.is_stopping and not self._is_stopping_told:
            self._is_stopping_told = True
            notices.append("STOPPING=1")
        if (status := status_of(view)) != self._status:
            self._status = status
            notices.append(f"STATUS={status}")
        if view.live and self._is_watchdog_due():
            self._alive_told_ms = self._clock()
            notices.append("WATCHDOG=1")
        if notices:
            self._send("\n".join(notices))

    def _is_watchdog_due(self) -> bool:
        if self.watchdog_ms is None:
            return False
        told_ms = self._alive_told_ms
        return told_ms is None or self._clock() - told_ms >= self.watchdog_ms // 4

    def _send(self, notice: str) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(notice.encode(), self._path)


def systemd(environment: Mapping[str, str], clock: Clock) -> Systemd | None:
    """Answer who is to be told, if the environment names somebody."""
    path = environment.get(SOCKET, "")
    if not path.startswith(("/", "@")) or len(path) < 2:
        return None
    is_meant = environment.get(WATCHDOG_PID, str(os.getpid())) == str(os.getpid())
    microseconds = environment.get(WATCHDOG_US, "")
    watchdog_ms = int(microseconds) // 1_000 if is_meant and microseconds.isdecimal() else 0
    return Systemd(path, watchdog_ms or None, clock)


def status_of(view: View) -> str:
    """Answer the view as one line for people."""
    told = ", ".join(
        f"{name} {value}" for name, value in view.facts.items() if not isinstance(value, dict | float)
    )
    return told if view.live else f"not live; {told}"
