"""One worker process as its supervisor sees it: started, reported on, signalled, ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from leasemq.serving.reports import LINE_BYTES, Post, decode_view
from leasemq.serving.view import NOT_BEGUN, View

_TERMINALS = {signal.SIGINT, signal.SIGHUP}  # what a terminal sends to a whole group

Command = Callable[[str, Post], Sequence[str]]


class Offspring:
    """A fresh interpreter, never a fork of this one. Owner: the supervisor, in its only loop.

    Raises: OSError if it cannot be started.
    """

    def __init__(self, name: str, command: Command, environment: Mapping[str, str], now_ms: int) -> None:
        self.name = name
        self.started_ms = self.heard_ms = now_ms
        self.view: View = NOT_BEGUN
        self.has_reported = False
        self.is_told_to_stop = False
        self._rest = b""
        self.reports, end = os.pipe()
        os.set_blocking(self.reports, False)
        # Blocked until the new process has said that it takes no notice of them; masks outlive exec.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINALS)
        try:
            self._process = subprocess.Popen(  # noqa: S603  the command is this program's own
                command(name, Post(fd=end, supervisor_pid=os.getpid())),
                stdin=subprocess.DEVNULL,
                pass_fds=(end,),
                env=environment,
            )
        except OSError:
            os.close(self.reports)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(end)
        self.pid = self._process.pid

    def hear(self, now_ms: int) -> bool:
        """Read what it reported; False: it will report no more."""
        try:
            read = os.read(self.reports, 16 * LINE_BYTES)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + read).split(b"\n")
        for view in map(decode_view, lines):
            if view is not None:
                self.view, self.heard_ms, self.has_reported = view, now_ms, True
        return bool(read)

    def ended(self) -> int | None:
        """Answer its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        self.is_told_to_stop = True
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def close(self) -> None:
        """Hear no more of it."""
        os.close(self.reports)
