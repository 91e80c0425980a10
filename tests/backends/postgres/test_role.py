"""The page about PostgreSQL gives a role no more than it needs, and no less: its recipes are run here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from leasemq.backends.postgres import from_url
from leasemq.errors import BackendUnavailable
from leasemq.testing.conformance import builders
from tests.servers import PostgresServer
from tests.servers.postgres_server import OWNER

PAGE = Path(__file__).parents[3] / "docs" / "postgres.md"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of the test's own: roles are the whole server's."""
    with PostgresServer(tmp_path / "server") as own:
        yield own


def recipe(title: str) -> bytes:
    """A block of the page."""
    found = re.search(rf'^```sql title="{title}"\n(.*?)^```$', PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None, title
    return found[1].encode()


def follow(server: PostgresServer, title: str) -> None:
    """Do what a block says, as an administrator."""
    with closing(psycopg.connect(server.url, autocommit=True)) as administrator:
        administrator.execute(recipe(title))


async def works(url: str) -> None:
    """Carry a job through, with a listener and a renewal."""
    backend = from_url(url)
    await backend.prepare()
    async with backend.listen(["q"]) as listener:
        (answer,) = await backend.enqueue("q", [builders.new_job("j")])
        listener.interest([answer.ref])
        listener.follow(["q"])
        (lease,) = (await backend.claim("q", 1, builders.LEASE_MS, builders.claimant("A"))).leases
        renewer = backend.renewer()
        renewer.renew("q", [("j", lease.fence)], builders.LEASE_MS)
        renewer.close()
        await backend.settle("q", [builders.complete(lease)])
        assert answer.ref in (await listener.wait(10_000)).ended | (await listener.wait(10_000)).ended
    await backend.prune("q", 100)
    await backend.cancel("q", ["none"])
    assert (await backend.counts("q")).completed == 1
    await backend.close()


@pytest.mark.promise("P-94")
async def test_a_role_that_owns_its_schema_makes_the_store_and_works(server: PostgresServer) -> None:
    follow(server, "owner")
    follow(server, "pooler")
    url = server.url.replace(f"//{OWNER}@", "//leasemq_app@")

    await works(url)
    await works_through_a_pooler(url)


async def works_through_a_pooler(url: str) -> None:
    """See the time-outs that the role brings along."""
    backend = from_url(f"{url}?notify=off")
    await backend.prepare()
    await backend.close()
    with closing(psycopg.connect(url)) as session:
        assert session.execute("SHOW lock_timeout").fetchall() == [("2s",)]


@pytest.mark.promise("P-94")
async def test_a_role_that_may_create_nothing_works_on_a_store_that_is_there(server: PostgresServer) -> None:
    follow(server, "owner")
    owner = from_url(server.url.replace(f"//{OWNER}@", "//leasemq_app@"))
    await owner.prepare()
    await owner.close()
    follow(server, "worker")

    await works(server.url.replace(f"//{OWNER}@", "//leasemq_worker@"))


@pytest.mark.promise("P-94", "P-04")
async def test_a_role_without_rights_is_told_what_is_missing(server: PostgresServer) -> None:
    follow(server, "owner")
    with closing(psycopg.connect(server.url, autocommit=True)) as administrator:
        administrator.execute("CREATE ROLE nobody LOGIN")
    backend = from_url(server.url.replace(f"//{OWNER}@", "//nobody@"))

    with pytest.raises(BackendUnavailable, match="grant what the documentation"):
        await backend.prepare()
    await backend.close()
