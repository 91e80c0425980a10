"""A fresh server for each run, set up as one would run it where jobs must not be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where one run takes place: the URL, and the processes whose CPU counts as the server's."""

    url: str
    server_pids: tuple[int, ...] = ()


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
                    yield Ground(url=redis.url, server_pids=(redis.pid,))
            case "postgres":  # with fsync
                from tests.servers import PostgresServer

                with PostgresServer(folder, fsync=True) as postgres:
                    yield Ground(url=postgres.url, server_pids=(postgres.pid,))
            case "memory":
                yield Ground(url="memory://")
            case _:
                yield Ground(url=f"sqlite:///{folder}/jobs.db")
