"""Writes the generated pages of the documentation: lifecycle, capabilities, and what `make test` showed."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from leasemq.backends.memory import MemoryBackend
from leasemq.client.schemes import open_backend
from leasemq.protocol.insight import Capabilities
from leasemq.protocol.lifecycle import mermaid
from leasemq.testing.promises import as_markdown, promise_table, read_catalogue, read_kills, read_trials

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from tests.servers import PostgresServer, RedisCluster, RedisServer  # noqa: E402  found by the line above

DOCS = ROOT / "docs"
PER_MACHINE = {"backend", "store_id", "server", "warnings"}  # not about the backend, but about one store
CAPABILITIES = """# What each backend can do

As the backends declare it; a backend that declares what it does not keep fails the conformance suite.
Written by `python scripts/docs.py`.

"""
PROMISES = """# Each promise, each backend

*Proven*: its tests pass there, and a planted fault that breaks it is found out by a test naming it.
*Tested*: its tests pass. *Later*: brought by a later release.
Written by `python scripts/docs.py` from the results of `make test`.

"""


def capabilities() -> str:
    """Answer the capability table, as the backends themselves declare it; the suite holds them to it."""
    with tempfile.TemporaryDirectory() as folder:
        declared = asyncio.run(_declared(Path(folder)))
    names = [field.name for field in dataclasses.fields(Capabilities) if field.name not in PER_MACHINE]
    lines = ["| capability | " + " | ".join(declared) + " |", "| --- |" + " --- |" * len(declared)]
    for name in names:
        answers = [_shown(getattr(one, name)) for one in declared.values()]
        lines.append(f"| {name.replace('_', ' ')} | " + " | ".join(answers) + " |")
    return "\n".join(lines) + "\n"


def write_lifecycle(page: str) -> str:
    """Answer the page with the diagram drawn anew."""
    before, rest = page.split("```mermaid\n")
    return before + "```mermaid\n" + mermaid() + "```" + rest.split("```", 1)[1]


def main() -> int:
    """Write the pages; 1 if there is no test run to tell of."""
    lifecycle = DOCS / "lifecycle.md"
    lifecycle.write_text(write_lifecycle(lifecycle.read_text()))
    (DOCS / "capabilities.md").write_text(CAPABILITIES + capabilities())
    results, kills = ROOT / "build" / "promises.json", ROOT / "build" / "mutants.json"
    if not (results.exists() and kills.exists()):
        print("build/promises.json or build/mutants.json is missing: run `make test` first", file=sys.stderr)
        return 1
    catalogue = read_catalogue(ROOT / "tests" / "promises.toml")
    rows = promise_table(catalogue, read_trials(results), read_kills(kills))
    (DOCS / "promises.md").write_text(PROMISES + as_markdown(rows) + "\n")
    return 0


async def _declared(folder: Path) -> dict[str, Capabilities]:
    """Ask each backend; the servers are throwaway ones that write to a disk as by default."""
    with ExitStack() as servers:
        postgres = servers.enter_context(PostgresServer(folder / "postgres", fsync=True))
        redis = servers.enter_context(RedisServer(folder / "redis", appendonly=True))
        cluster = servers.enter_context(RedisCluster(folder / "cluster", options={"appendonly": "yes"}))
        urls = {
            "sqlite": f"sqlite:///{folder}/a.db",
            "sqlite, sync=normal": f"sqlite:///{folder}/b.db?sync=normal",
            "postgres": postgres.url,
            "redis, appendonly": redis.url,
            "redis-cluster, appendonly": cluster.url,
        }
        declared = {"memory": await MemoryBackend().prepare()}
        for name, url in urls.items():
            backend = open_backend(url)
            declared[name] = await backend.prepare()
            await backend.close()
    return declared


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
