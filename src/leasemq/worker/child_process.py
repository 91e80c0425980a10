"""One child process as its worker sees it: a socket in the loop, and a thread that waits for its end.

The thread starts the process and lives until it has ended, for two reasons: the kernel kills the child
when the thread dies that has started it (prctl(2), PR_SET_PDEATHSIG), and no child stays a zombie.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from leasemq.logs import told_to_child
from leasemq.worker.pipe import Frames, FromChild, ToChild, framed

# The parent's search path comes first of all: without it a child may not even find this package.
_PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
number, worker, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
sys.path[:] = sys.argv[4:]
from leasemq.worker.child import main
main(number, worker, log)
"""
NOT_STARTED = 127  # the exit code of a process that the system would not start; as a shell has it


class ChildProcess:
    """A process that runs one attempt at a time. Owner: the pool, in its loop."""

    def __init__(self, on_gone: Callable[[ChildProcess], None]) -> None:
        """Start it; what is said before it is up waits for it. `on_gone` is called once, in the loop."""
        self.known: set[str] = set()  # the tasks it has learned
        self.is_told_to_end = False
        self.is_asking = False  # its function waits for the answer to a note
        self.exit_code: int | None = None  # minus the signal's number if one ended it
        self.trouble = ""  # why there is no process, or what it said wrong
        self.gone = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._on_gone = on_gone
        self._inbox: deque[FromChild] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._unsent = bytearray()
        self._kill_timer: asyncio.TimerHandle | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._is_doomed = False
        self._log = told_to_child()
        self._end, theirs = socket.socketpair()
        self._end.setblocking(False)
        self._frames = Frames(self._end, FromChild)
        self._loop.add_reader(self._end, self._read)
        try:
            threading.Thread(target=self._live, args=(theirs,), name="leasemq-child", daemon=True).start()
        except RuntimeError as error:  # the system has no thread left
            theirs.close()
            self._loop.call_soon(self._ended, NOT_STARTED, str(error))

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended and was reaped."""
        return self.exit_code is not None

    @property
    def pid(self) -> int | None:
        """Its process id; None while it is being started."""
        return None if self._popen is None else self._popen.pid

    def say(self, message: ToChild) -> None:
        """Send a message; whatever does not fit into the socket now follows when it can."""
        frame = framed(message)
        if self._unsent:
            self._unsent += frame
            return
        sent = self._send(frame)
        if sent < len(frame):
            self._unsent += memoryview(frame)[sent:]
            self._loop.add_writer(self._end, self._send_rest)

    async def hear(self) -> FromChild | None:
        """Wait for its next message; None: it has ended, and everything it said was heard."""
        while not self._inbox:
            if self.is_gone:
                return None
            self._arrival = self._loop.create_future()
            await self._arrival
        return self._inbox.popleft()

    def dismiss(self) -> None:
        """Let an idle one end by itself: it sees the end of the stream."""
        self.is_told_to_end = True
        self._hang_up()

    def terminate(self, grace_ms: int) -> None:
        """Ask it to end (SIGTERM), and kill it after the grace. Asked again, the shorter grace holds."""
        if not self.is_told_to_end:
            self._signal(signal.SIGTERM)
        self.kill_in(grace_ms)

    def kill_in(self, grace_ms: int) -> None:
        """Let it serve nobody else, and kill it after this time, or a shorter one that it has already."""
        self.is_told_to_end = True
        timer = self._loop.call_later(grace_ms / 1_000, self.kill)
        if self._kill_timer is not None and self._kill_timer.when() <= timer.when():
            timer.cancel()
            return
        self._forget_timer()
        self._kill_timer = timer

    def kill(self) -> None:
        """Kill it (SIGKILL), also if it is only being started."""
        self.is_told_to_end = True
        self._is_doomed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)  # looks first whether it was reaped
        elif number is signal.SIGTERM:
            self._is_doomed = True  # a process that is not there yet has nothing to end in order

    # ---- in its thread

    def _live(self, theirs: socket.socket) -> None:
        try:
            with theirs:
                self._popen = self._started(theirs)
            if self._is_doomed:
                self._popen.kill()
            code, trouble = self._popen.wait(), ""
        except (OSError, ValueError) as error:  # the system would not start it
            code, trouble = NOT_STARTED, str(error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ended, code, trouble)

    def _started(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        number = theirs.fileno()
        program = [sys.executable, "-c", _PROGRAM, str(number), str(os.getpid()), self._log, *sys.path]
        return subprocess.Popen(  # noqa: S603  this interpreter, with this program
            program, pass_fds=(number,), stdin=subprocess.DEVNULL
        )

    # ---- in the loop

    def _read(self) -> None:
        try:
            said = self._frames.read()
        except BlockingIOError:
            return
        except OSError:
            said = None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.trouble = f"what it sent could not be read: {error}"
            self._loop.remove_reader(self._end)
            self.kill()
            return
        if said is None:  # it has closed its end: it is ending, or it will
            self._loop.remove_reader(self._end)
            return
        self._inbox += said
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self._end.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # it is gone, and its end will be told
            return len(data)

    def _send_rest(self) -> None:
        del self._unsent[: self._send(self._unsent)]
        if not self._unsent:
            self._loop.remove_writer(self._end)

    def _ended(self, code: int, trouble: str) -> None:
        """Hear the rest of what it said, then tell that it is gone."""
        if self._end.fileno() >= 0:
            self._drain()
        self._hang_up()
        self._forget_timer()
        self.exit_code = code
        self.trouble = self.trouble or trouble
        self._wake()
        self.gone.set_result(None)
        self._on_gone(self)

    def _drain(self) -> None:
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            while (said := self._frames.read()) is not None:
                self._inbox += said

    def _hang_up(self) -> None:
        if self._end.fileno() >= 0:
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
            self._end.close()

    def _forget_timer(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None
