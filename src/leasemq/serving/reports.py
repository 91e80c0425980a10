"""What a worker process reports to the supervisor that started it, through a pipe: a line of JSON a view."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from leasemq.serving.view import View

LINE_BYTES = 4_096  # a pipe takes so much whole or not at all (PIPE_BUF, pipe(7))
HURRY = signal.SIGUSR1  # from the supervisor alone: give back at once what runs
_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """The end of the pipe that a supervised process holds, and who started it."""

    fd: int
    supervisor_pid: int

    def to_text(self) -> str:
        """Answer it as the argument of a command."""
        return f"{self.fd}:{self.supervisor_pid}"

    @classmethod
    def from_text(cls, text: str) -> Post:
        """Answer what `to_text` wrote. Raises: ValueError."""
        fd, pid = text.split(":")
        return cls(fd=int(fd), supervisor_pid=int(pid))


post: ContextVar[Post | None] = ContextVar("leasemq_post", default=None)
"""Set where this process was started by a supervisor."""


class Reporter:
    """Reports views, and ends the process in order when its supervisor is gone. Owner: the telling thread."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._is_orphaned = False
        os.set_blocking(post.fd, False)
        os.set_inheritable(post.fd, False)

    def hear(self, view: View) -> None:
        """Report it; a report that cannot be delivered is dropped."""
        with suppress(OSError):
            os.write(self._post.fd, encode_view(view))
        if not self._is_orphaned and os.getppid() != self._post.supervisor_pid:
            self._is_orphaned = True
            os.kill(os.getpid(), signal.SIGTERM)


def encode_view(view: View) -> bytes:
    """Answer the line of a report."""
    line = json.dumps(asdict(view)).encode() + b"\n"
    return line if len(line) <= LINE_BYTES else encode_view(View(**{**asdict(view), "facts": {}}))


def decode_view(line: bytes) -> View | None:
    """Answer the view of a report; None: that is none."""
    try:
        return View(**json.loads(line))
    except (ValueError, TypeError):
        return None


def obey_supervisor(held: Post) -> None:
    """Let this process end when its supervisor does, and take what a terminal sends for the supervisor's.

    SIGINT and SIGHUP reach every process of a terminal's foreground group: the supervisor passes on what
    they mean. To be called in the main thread, before the app is imported.
    """
    # Handlers, not SIG_IGN: that would hold for whatever the jobs start, too (execve(2)).
    signal.signal(signal.SIGINT, _take_no_notice)
    signal.signal(signal.SIGHUP, _take_no_notice)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP})
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    post.set(held)
    if os.getppid() != held.supervisor_pid:  # it ended before it could be watched
        os.kill(os.getpid(), signal.SIGTERM)


def take_no_more_signals() -> None:
    """Let nothing end this process before its exit code is told: it has drained, and starts nothing more.

    At its exit the interpreter gives handlers of its own back to the system, whose action is to kill.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, HURRY):
        signal.signal(number, signal.SIG_IGN)


def _take_no_notice(*_: object) -> None:
    """What the signal means is the supervisor's to say."""
