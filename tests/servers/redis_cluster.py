"""A throwaway cluster of primaries without replicas, which is ready in about two seconds."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.redis_server import RedisServer
from tests.servers.server import HOST, Several, free_port, until

SLOTS = 16_384
NODE_TIMEOUT_MS = 2_000


class RedisCluster(Several):
    """All slots in equal shares. Owner: the test or fixture."""

    servers: list[RedisServer]  # type: ignore[assignment]  of one kind

    def __init__(
        self,
        folder: Path,
        primaries: int = 3,
        *,
        binary: str = "valkey",
        options: dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._is_formed = False
        for number in range(primaries):
            own = {
                "cluster-enabled": "yes",
                "cluster-node-timeout": str(NODE_TIMEOUT_MS),
                "cluster-port": str(free_port()),
                **(options or {}),
            }
            self.servers.append(RedisServer(folder / f"node-{number}", binary=binary, options=own))

    @property
    def url(self) -> str:
        """What an App takes: all nodes, so that it can start while one is away."""
        return "redis+cluster://" + ",".join(f"{HOST}:{server.port}" for server in self.servers)

    def start(self) -> Self:
        """Start all, let them meet the first time, and return when each serves."""
        for server in self.servers:
            server.start()
        if not self._is_formed:
            self._form()
        until(self.is_ready, "every node of the cluster says that the cluster is whole")
        return self

    def restart(self) -> Self:
        """Start each anew, stopping those that run."""
        for server in self.servers:
            server.restart()
        until(self.is_ready, "every node of the cluster says that the cluster is whole again")
        return self

    def is_ready(self) -> bool:
        """Whether each node knows all others and all slots."""
        return all(self._is_whole(server) for server in self.servers)

    def _form(self) -> None:
        share = -(-SLOTS // len(self.servers))
        first = self.servers[0]
        for number, server in enumerate(self.servers):
            server.ask("CLUSTER", "ADDSLOTSRANGE", number * share, min((number + 1) * share, SLOTS) - 1)
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in self.servers[1:]:
            server.ask("CLUSTER", "MEET", HOST, first.port, int(first.options["cluster-port"]))
        self._is_formed = True

    def _is_whole(self, server: RedisServer) -> bool:
        told = dict(_pairs(server.ask("CLUSTER", "INFO")))
        return told["cluster_state"] == "ok" and told["cluster_known_nodes"] == str(len(self.servers))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pairs(told: dict[str, str] | bytes) -> list[tuple[str, str]]:
    if isinstance(told, dict):  # the driver reads some answers itself
        return [(str(name), str(value)) for name, value in told.items()]
    lines = told.decode().split("\r\n")
    return [(name, value) for name, separator, value in (line.partition(":") for line in lines) if separator]
