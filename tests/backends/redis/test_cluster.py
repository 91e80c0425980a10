"""A Cluster: calls find their slot's node, follow it when it moves, and wait while it is moving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from leasemq.backends.redis.blocking import BlockingCaller
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.keys import queue_prefix
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable, Unsupported
from tests.backends.redis.small_scripts import ADD, ECHO, SUM
from tests.servers import RedisCluster, RedisServer
from tests.servers.server import free_port, until

pytestmark = pytest.mark.slow  # its servers need three seconds to find each other

QUEUES = ["mail", "sms", "push", "{mail}", "a{b}c", "{}x", *map(str, range(10))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three primaries of this module's own: its slots are moved about."""
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
async def link(cluster: RedisCluster, namespace: str) -> AsyncIterator[Link]:
    """The way to it."""
    link = Link(located(f"{cluster.url}?namespace={namespace}&timeout_ms=1000&connect_timeout_ms=500"))
    yield link
    await link.close()


def homes(cluster: RedisCluster, prefix: bytes) -> tuple[RedisServer, RedisServer]:
    """Who has the slot of a prefix, and somebody who has not."""
    slot = key_slot(prefix)
    ports = [
        entry[2][1] for entry in cluster.servers[0].ask("CLUSTER", "SLOTS") if entry[0] <= slot <= entry[1]
    ]
    home = next(server for server in cluster.servers if server.port == ports[0])
    return home, next(server for server in cluster.servers if server is not home)


def node_id(server: RedisServer) -> bytes:
    """How its Cluster calls it."""
    found = server.ask("CLUSTER", "MYID")
    return found if isinstance(found, bytes) else str(found).encode()


def move(cluster: RedisCluster, slot: int, into: RedisServer) -> None:
    """Give a slot without keys to another node, and let all know."""
    for server in (into, *(one for one in cluster.servers if one is not into)):
        server.ask("CLUSTER", "SETSLOT", slot, "NODE", node_id(into))


@pytest.mark.promise("P-95", "B17")
async def test_each_queue_is_called_where_its_slot_is(link: Link, cluster: RedisCluster) -> None:
    answers = await asyncio.gather(*(link.call(ADD, queue, 1) for queue in QUEUES for _ in range(3)))

    assert all(answers.count(number) == len(QUEUES) for number in (1, 2, 3))
    assert len(await link.route().all()) == len(cluster.servers)


@pytest.mark.promise("P-95", "P-98")
async def test_a_slot_that_moved_is_followed_and_what_was_asked_for_is_done_once(
    link: Link, cluster: RedisCluster, namespace: str
) -> None:
    prefix = queue_prefix(namespace, "q")
    _, other = homes(cluster, prefix)
    for _ in range(3):  # from the second on, the map is known and no connection is new
        await link.call(ECHO, "q", 1)
    caller = BlockingCaller(link.settings)
    assert await asyncio.to_thread(caller.call, ECHO, "q", 1) == b"1"
    move(cluster, key_slot(prefix), other)

    assert await link.call(ADD, "q", 1) == 1
    assert await asyncio.to_thread(caller.call, ADD, "q", 1) == 2
    caller.close()
    assert await link.call(SUM, "q") == 2


@pytest.mark.promise("P-95", "P-98")
async def test_while_a_slot_is_moving_its_queue_is_unavailable_and_nothing_is_split(
    link: Link, cluster: RedisCluster, namespace: str
) -> None:
    prefix = queue_prefix(namespace, "q")
    slot = key_slot(prefix)
    home, other = homes(cluster, prefix)
    await link.call(ADD, "q", 1)
    other.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(home))
    home.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(other))

    with pytest.raises(BackendUnavailable, match="moving this slot"):
        await link.call(ADD, "q", 1)
    home.ask("MIGRATE", "127.0.0.1", other.port, prefix + b"sum", 0, 5_000)
    with pytest.raises(BackendUnavailable, match="moving this slot"):
        await link.call(ADD, "q", 1)
    move(cluster, slot, other)

    assert await link.call(ADD, "q", 1) == 2


@pytest.mark.promise("P-95", "P-98")
async def test_a_dead_node_costs_only_its_own_queues(
    link: Link, cluster: RedisCluster, namespace: str
) -> None:
    home, _ = homes(cluster, queue_prefix(namespace, "q"))
    far = next(
        name for name in map(str, range(100)) if homes(cluster, queue_prefix(namespace, name))[0] is not home
    )
    await asyncio.gather(link.call(ADD, "q", 1), link.call(ADD, far, 1))
    for server in cluster.servers:
        server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    home.freeze()
    try:
        outcomes = await asyncio.gather(
            link.call(SUM, "q"), *(link.call(ADD, far, 1) for _ in range(9)), return_exceptions=True
        )
    finally:
        home.thaw()

    assert isinstance(outcomes[0], BackendUnavailable)
    assert outcomes[1:] == list(range(2, 11))
    await asyncio.to_thread(until, cluster.is_ready, "the cluster is whole again")
    assert await link.call(SUM, "q") == 1


@pytest.mark.promise("P-95")
async def test_one_server_alone_is_no_cluster(server: RedisServer) -> None:
    link = Link(located(f"redis+cluster://127.0.0.1:{server.port}"))

    with pytest.raises(Unsupported, match="use redis://"):
        await link.call(ECHO, "q", 1)
    await link.close()


@pytest.mark.promise("P-98")
async def test_a_cluster_that_is_away_is_unavailable(tmp_path: Path) -> None:
    gone = RedisServer(tmp_path / "gone")
    link = Link(located(f"redis+cluster://127.0.0.1:{gone.port}"))

    with pytest.raises(BackendUnavailable, match="nothing was sent"):
        await link.call(ECHO, "q", 1)
    await link.close()


@pytest.mark.promise("P-95", "P-98")
async def test_a_replica_that_took_over_is_called_from_then_on(tmp_path: Path) -> None:
    with RedisCluster(tmp_path / "pair", primaries=1) as pair:
        primary = pair.servers[0]
        options = {**primary.options, "cluster-port": str(free_port()), "dir": str(tmp_path / "replica")}
        with RedisServer(tmp_path / "replica", binary="valkey", options=options) as replica:
            replica.ask("CLUSTER", "MEET", "127.0.0.1", primary.port, int(primary.options["cluster-port"]))
            await asyncio.to_thread(until, lambda: knows(replica, primary), "they have met")
            replica.ask("CLUSTER", "REPLICATE", node_id(primary))
            link = Link(located(pair.url))
            for number in range(3):
                assert await link.call(ADD, "q", 1) == number + 1
            await asyncio.to_thread(until, lambda: has_all(primary, replica), "it has every write")
            replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
            await asyncio.to_thread(until, lambda: is_replica(primary), "the primary has stepped down")

            assert await link.call(ADD, "q", 1) == 4
            assert int(replica.ask("GET", queue_prefix("leasemq", "q") + b"sum")) == 4
            await link.close()


def knows(server: RedisServer, other: RedisServer) -> bool:
    """Whether a node has met another."""
    return node_id(other).decode() in str(server.ask("CLUSTER", "NODES"))


def has_all(primary: RedisServer, replica: RedisServer) -> bool:
    """Whether a replica has every write of its primary."""
    told = replica.info("replication")
    offsets = [one.info("replication")["master_repl_offset"] for one in (primary, replica)]
    return told.get("master_link_status") == "up" and offsets[0] == offsets[1]


def is_replica(server: RedisServer) -> bool:
    """Whether it takes no writes."""
    return bool(server.info("replication")["role"] == "slave")
