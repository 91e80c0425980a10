"""A fresh server for each run, set up as one would run it where jobs must not be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where one run takes place: the URL, and the processes whose CPU counts as the server's."""

    url: str
    folder: Path
    server_pids: tuple[int, ...] = ()

    def disk_bytes(self) -> int:
        """Answer how much its files take."""
        blocks = 0
        for path in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # a server may just have replaced it
                blocks += path.stat().st_blocks
        return blocks * 512


@contextmanager
def ground(backend: str) -> Iterator[Ground]:
    """Start what the backend needs, empty, and end it afterwards."""
    with TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        match backend:
            case "redis":  # appendonly, fsync each second
                from tests.servers import RedisServer

                with RedisServer(folder, appendonly=True) as redis:
                    yield Ground(url=redis.url, folder=folder, server_pids=(redis.pid,))
            case "postgres":  # with fsync
                from tests.servers import PostgresServer

                with PostgresServer(folder, fsync=True) as postgres:
                    yield Ground(url=postgres.url, folder=folder, server_pids=(postgres.pid,))
            case "memory":
                yield Ground(url="memory://", folder=folder)
            case _:
                yield Ground(url=f"sqlite:///{folder}/jobs.db", folder=folder)
