"""What is read of a server at start: refused below the floor, warned about where jobs may be lost."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.checking import Server, check_server, durability, server_of, warnings
from leasemq.backends.redis.settings import Address, Credentials, Layout, Settings, located
from leasemq.errors import SchemaTooNew, Unsupported
from leasemq.protocol.insight import Durability
from tests.servers import Proxy, RedisServer

SETTINGS = Settings(addresses=(Address("h", 1),))
GOOD = Server(
    product="Redis", version="7.4.1", is_node=False, eviction="noeviction", appends=True, fsync="always"
)
D0, D1, D2 = Durability.D0, Durability.D1, Durability.D2
SET_UPS = {
    "always": (GOOD, D2, None),
    "everysec": (replace(GOOD, fsync="everysec"), D1, None),
    "fsync no": (replace(GOOD, fsync="no"), D1, "appendfsync is no"),
    "fsync unknown": (replace(GOOD, fsync=None), D1, "CONFIG GET is not allowed"),
    "no AOF": (replace(GOOD, appends=False), D0, "appendonly is off"),
    "unknown": (replace(GOOD, appends=None), D0, "INFO is not allowed"),
    "evicting": (replace(GOOD, eviction="allkeys-lru"), D2, "maxmemory-policy is allkeys-lru"),
    "volatile": (replace(GOOD, eviction="volatile-ttl"), D2, "set noeviction"),
    "eviction unknown": (replace(GOOD, eviction=None), D2, "must be noeviction"),
}


@pytest.mark.promise("P-95", "E-69")
@pytest.mark.parametrize("name", SET_UPS)
def test_what_may_lose_jobs_is_warned_about_and_lowers_the_class(name: str) -> None:
    server, expected, warning = SET_UPS[name]
    told = list(warnings(server))

    assert durability(server) is expected
    assert (warning is None and told == []) or (len(told) == 1 and str(warning) in told[0])


@pytest.mark.promise("P-95")
@pytest.mark.parametrize("version", ["6.2.14", "5.0", "2.8.0"])
def test_a_server_below_the_floor_is_refused(version: str) -> None:
    with pytest.raises(Unsupported, match=r"needs Redis 7\.0"):
        check_server(replace(GOOD, version=version), SETTINGS)


@pytest.mark.promise("P-95")
@pytest.mark.parametrize("version", ["7.0.0", "8.2.1", "9.1", "10.0.0", "of an unknown version"])
def test_a_server_from_the_floor_on_is_taken(version: str) -> None:
    check_server(replace(GOOD, version=version), SETTINGS)


@pytest.mark.promise("P-95")
def test_a_node_of_a_cluster_is_taken_only_as_such() -> None:
    check_server(replace(GOOD, is_node=True), replace(SETTINGS, layout=Layout.CLUSTER))
    with pytest.raises(Unsupported, match=r"redis\+cluster://"):
        check_server(replace(GOOD, is_node=True), SETTINGS)


@pytest.mark.promise("P-95")
def test_valkey_is_told_from_redis() -> None:
    lines = ("# Server", "redis_version:7.2.4", "valkey_version:9.0.1", "server_mode:cluster", "")
    info = "\r\n".join(lines).encode()

    assert server_of(info, None) == Server(
        product="Valkey", version="9.0.1", is_node=True, eviction=None, appends=None, fsync=None
    )


@pytest.mark.promise("P-95", "P-02")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"appendonly": "yes", "appendfsync": "always"}, D2),
        ({"appendonly": "yes", "appendfsync": "everysec"}, D1),
        ({}, D0),
    ],
)
async def test_the_class_is_read_from_the_server(
    server: RedisServer, options: dict[str, str], expected: Durability, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in options.items():
        server.ask("CONFIG", "SET", name, value)
    backend = RedisBackend(located(server.url))
    with caplog.at_level(logging.WARNING, "leasemq"):
        capabilities = await backend.prepare()
        again = await backend.prepare()
    await backend.close()

    assert (capabilities.durability, capabilities.server) == (expected, again.server)
    assert capabilities.server.startswith("Redis 7.")
    assert capabilities.store_id == again.store_id
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * (expected is D0)


@pytest.mark.promise("P-95", "E-69")
async def test_what_may_not_be_read_is_said(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    server.ask("CONFIG", "SET", "appendonly", "yes")
    server.ask("ACL", "SETUSER", "app", "on", ">word", "~*", "&*", "+@all", "-info", "-config")
    who = Credentials(username="app", password="word")  # noqa: S106  made up
    backend = RedisBackend(replace(located(server.url), credentials=who))
    with caplog.at_level(logging.WARNING, "leasemq"):
        capabilities = await backend.prepare()
    await backend.close()

    assert capabilities.durability is D0
    assert "INFO is not allowed" in caplog.text


@pytest.mark.promise("P-95", "P-98")
async def test_a_start_whose_answer_is_lost_asks_again(server: RedisServer, proxy: Proxy) -> None:
    backend = RedisBackend(located(f"redis://127.0.0.1:{proxy.port}"))
    first = await backend.prepare()
    proxy.drop_reply()
    again = await backend.prepare()
    await backend.close()

    assert (first.store_id, proxy.dropped) == (again.store_id, 1)


@pytest.mark.promise("P-85")
async def test_a_store_of_a_newer_release_is_left_alone(server: RedisServer) -> None:
    server.ask("HSET", "leasemq:{%/store}:store", "id", "x", "format", 2)
    backend = RedisBackend(located(server.url))

    with pytest.raises(SchemaTooNew, match="newer release"):
        await backend.prepare()
    await backend.close()
