"""Runs one server, and ends it with all its children when whoever started it has ended in whatever way.

In: user ("" for the same), command. Out: the server's process id on standard output; everything that the
server prints on standard error. The keeper ends when the server does, with its exit code; standard input
tells it that its own parent is gone. It deletes nothing: a killed run leaves its temporary folders behind.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import select
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
ENDED_BY_US = 99


def main() -> int:
    """Start the server, wait for its end or the parent's, leave no process behind."""
    user, *command = sys.argv[1:]
    for number in (
        signal.SIGINT,
        signal.SIGHUP,
    ):  # a terminal's; the end of the tests is the end of the input
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # so that children of a killed server become ours
    server = os.fork()
    if server == 0:
        become(user, command)
    print(server, flush=True)
    server_ended = os.pidfd_open(server)
    poll = select.poll()
    poll.register(server_ended, select.POLLIN)
    poll.register(sys.stdin.fileno(), select.POLLIN)
    is_abandoned = server_ended not in [descriptor for descriptor, _ in poll.poll()]
    if is_abandoned:
        os.kill(server, signal.SIGKILL)
    _, status = os.waitpid(server, 0)
    end_the_others()
    return ENDED_BY_US if is_abandoned else os.waitstatus_to_exitcode(status) % 256


def become(user: str, command: list[str]) -> None:
    """Turn this process into the server, which ends if the keeper is killed."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if user:
        known = pwd.getpwnam(user)
        os.initgroups(user, known.pw_gid)
        os.setgid(known.pw_gid)
        os.setuid(known.pw_uid)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after setuid, which would clear it
    os.execvp(command[0], command)  # noqa: S606  no shell is wanted


def end_the_others() -> None:
    """Kill children until there are none: those of a killed one come to us."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    while children := listed.read_text(encoding="ascii").split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    sys.exit(main())
