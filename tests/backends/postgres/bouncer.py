"""A throwaway transaction pooler before a server."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path

from tests.servers import PostgresServer, Server
from tests.servers.postgres_server import DATABASE, OWNER, other_user
from tests.servers.server import HOST, ServerFailed, is_listening

PROGRAM = "pgbouncer"
SETTINGS = """
[databases]
{database} = host={host} port={target} user={owner}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
"""


def program() -> str:
    """The file of the pooler. Raises: ServerFailed, saying what to install."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    if found := shutil.which(PROGRAM, path=path):
        return found
    raise ServerFailed(f"{PROGRAM} is not installed; scripts/servers installs it (on Debian: {PROGRAM})")


class Bouncer(Server):
    """pgbouncer in transaction mode with few connections to the server. Owner: the test or fixture."""

    def __init__(self, folder: Path, server: PostgresServer, *, connections: int = 2) -> None:
        super().__init__(folder)
        self._target = server.port
        self._connections = connections
        self._own = tempfile.TemporaryDirectory(prefix="leasemq-bouncer-", ignore_cleanup_errors=True)

    @property
    def url(self) -> str:
        """What an App takes."""
        return f"postgresql://{OWNER}@{HOST}:{self.port}/{DATABASE}?notify=off"

    def command(self) -> list[str]:
        """What is run; its settings are written anew, since the port may have changed."""
        own = Path(self._own.name)
        settings = own / "pgbouncer.ini"
        settings.write_text(
            SETTINGS.format(
                database=DATABASE,
                host=HOST,
                target=self._target,
                owner=OWNER,
                port=self.port,
                connections=self._connections,
            ),
            encoding="utf-8",
        )
        if user := self.user():
            known = pwd.getpwnam(user)
            for path in (own, settings):
                os.chown(path, known.pw_uid, known.pw_gid)
        return [program(), str(settings)]

    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        return is_listening(self.port)

    def user(self) -> str:
        """Whom it runs as: it refuses to run as root."""
        return other_user()

    def close(self) -> None:
        """End it for good; the temporary folder goes."""
        super().close()
        self._own.cleanup()
