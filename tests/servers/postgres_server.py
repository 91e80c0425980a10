"""A throwaway PostgreSQL server, from a template that is made a single time and then copied."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.servers.server import HOST, Server, ServerFailed

ROOT = Path(__file__).parents[2]
OTHER_USER = "postgres"  # the server refuses to run as root
DATABASE, OWNER = "postgres", "leasemq"
INSTALLED = Path("/usr/lib/postgresql")  # where Debian puts each version's programs
TEMPLATE_OPTIONS = ("-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
DEFAULTS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "logging_collector": "off",
}
READY_LINE = 7  # of postmaster.pid: https://www.postgresql.org/docs/15/storage-file-layout.html


@cache
def programs() -> Path:
    """The folder of the newest installed version's programs. Raises: ServerFailed, saying what to install."""
    found = [path.parent for path in INSTALLED.glob("*/bin/postgres")]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    if on_path := shutil.which("postgres"):
        return Path(on_path).resolve().parent
    raise ServerFailed("PostgreSQL is not installed; scripts/servers installs it (on Debian: postgresql)")


def other_user() -> str:
    """Whom the server runs as: whoever runs the tests, unless that is root."""
    return OTHER_USER if os.geteuid() == 0 else ""


class PostgresServer(Server):
    """One server; without `fsync` a crash of the machine, not of the server, would harm it.

    Its data are in a temporary folder of their own, since another user must get there; `folder` gets the log.
    """

    stop_signal = signal.SIGINT  # "fast": https://www.postgresql.org/docs/15/server-shutdown.html

    def __init__(
        self, folder: Path, *, fsync: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self.options = {**DEFAULTS, "fsync": "on" if fsync else "off", **(options or {})}
        self._own = tempfile.TemporaryDirectory(prefix="leasemq-postgres-", ignore_cleanup_errors=True)
        self.data = Path(self._own.name) / "data"

    @property
    def url(self) -> str:
        """What an App takes."""
        return f"postgresql://{OWNER}@{HOST}:{self.port}/{DATABASE}"

    def command(self) -> list[str]:
        """What is run."""
        if not self.data.exists():
            shutil.copytree(_template(), self.data)
            _give_away(self.data.parent)
        told = [f"--{name}={value}" for name, value in self.options.items()]
        return [str(programs() / "postgres"), "-D", str(self.data), f"--port={self.port}", *told]

    def is_ready(self) -> bool:
        """Whether it says so in its own file."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        is_ours = bool(lines) and lines[0] == str(self._pid)
        return is_ours and len(lines) > READY_LINE and lines[READY_LINE].strip() == "ready"

    def user(self) -> str:
        """Whom it runs as."""
        return other_user()

    def close(self) -> None:
        """End it for good; the temporary folder goes."""
        if self.is_alive:
            self.thaw()
            os.kill(self._pid, signal.SIGQUIT)  # "immediate"; SIGKILL would leave a segment of shared memory
        self._reap()
        self._own.cleanup()


@cache
def _template() -> Path:
    """The template of this version, made if there is none."""
    version = subprocess.run(
        [programs() / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    number = re.sub(r"[^0-9.]+", "-", version).strip("-")
    template = ROOT / "build" / "servers" / f"postgres-{number}"
    if template.exists():
        return template
    template.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="leasemq-initdb-") as folder,
        tempfile.TemporaryDirectory(prefix="new-", dir=template.parent) as beside,
    ):
        _give_away(Path(folder))
        user = other_user()
        subprocess.run(
            [programs() / "initdb", "-D", f"{folder}/data", *TEMPLATE_OPTIONS],
            capture_output=True,
            check=True,
            cwd="/",
            **({"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}),
        )
        made = Path(beside) / "data"
        shutil.copytree(f"{folder}/data", made)
        with suppress(OSError):  # somebody else has made it meanwhile
            made.rename(template)
    return template


def _give_away(folder: Path) -> None:
    """Make the server's user the owner of everything in there."""
    user = other_user()
    if not user:
        return
    known = pwd.getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, known.pw_uid, known.pw_gid, follow_symlinks=False)
