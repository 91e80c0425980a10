"""A throwaway primary with replicas, watched by three sentinels."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.redis_server import RedisServer
from tests.servers.server import HOST, Several, until

SERVICE = "leasemq"
DOWN_AFTER_MS = 1_000
FAILOVER_MS = 5_000
SENTINELS = 3
CONFIGURATION = """\
sentinel monitor {service} {host} {port} 2
sentinel down-after-milliseconds {service} {down_ms}
sentinel failover-timeout {service} {failover_ms}
sentinel parallel-syncs {service} 1
"""


class Sentinel(RedisServer):
    """One sentinel: the same binary, with a file that it rewrites itself."""

    def __init__(self, folder: Path, *, binary: str, primary_port: int) -> None:
        super().__init__(folder, binary=binary)
        self._file = folder / "sentinel.conf"
        text = CONFIGURATION.format(
            service=SERVICE,
            host=HOST,
            port=primary_port,
            down_ms=DOWN_AFTER_MS,
            failover_ms=FAILOVER_MS,
        )
        self._file.write_text(text, encoding="ascii")

    def command(self) -> list[str]:
        """What is run."""
        settings = ["--port", str(self.port), "--bind", HOST, "--dir", str(self.folder)]
        return [self.binary, str(self._file), *settings, "--protected-mode", "no", "--sentinel"]


class SentinelTrio(Several):
    """Owner: the test or fixture. `data` are the primary of the start and its replicas, in this order."""

    def __init__(
        self,
        folder: Path,
        *,
        replicas: int = 1,
        binary: str = "redis-server",
        options: dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._folder = folder
        self._binary = binary
        self.data = [
            RedisServer(folder / f"data-{n}", binary=binary, options=options) for n in range(replicas + 1)
        ]
        self.sentinels: list[Sentinel] = []
        self.servers.extend(self.data)

    @property
    def url(self) -> str:
        """What an App takes: the sentinels, and the name of what they watch."""
        return "redis+sentinel://" + ",".join(f"{HOST}:{one.port}" for one in self.sentinels) + f"/{SERVICE}"

    def start(self) -> Self:
        """Start all; return when the replicas follow and every sentinel knows all others."""
        first, *others = self.data
        first.start()
        for replica in others:
            replica.options["replicaof"] = f"{HOST} {first.port}"
            replica.start()
        if not self.sentinels:
            self.sentinels = [
                Sentinel(self._folder / f"sentinel-{n}", binary=self._binary, primary_port=first.port)
                for n in range(SENTINELS)
            ]
            self.servers.extend(self.sentinels)
        for sentinel in self.sentinels:
            sentinel.start()
        until(self.is_ready, "the sentinels know each other and the replicas")
        return self

    def restart(self) -> Self:
        """Start each anew, stopping those that run; who is primary is what the sentinels say."""
        for server in self.servers:
            server.restart()
        return self

    def is_ready(self) -> bool:
        """Whether a fail-over would work now."""
        return all(map(self._is_following, self.data[1:])) and all(map(self._is_watching, self.sentinels))

    def primary(self) -> RedisServer:
        """Who is the primary, as the first living sentinel says."""
        sentinel = next(one for one in self.sentinels if one.is_alive)
        _, port = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.data if server.port == int(port))

    def _is_following(self, replica: RedisServer) -> bool:
        return replica.info("replication").get("master_link_status") == "up"

    def _is_watching(self, sentinel: Sentinel) -> bool:
        told = sentinel.ask("SENTINEL", "MASTER", SERVICE)
        values = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))
        known = {_text(name): _text(value) for name, value in values.items()}
        return (known["num-other-sentinels"], known["num-slaves"]) == (
            str(len(self.sentinels) - 1),
            str(len(self.data) - 1),
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
