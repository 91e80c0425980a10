"""The throwaway servers do what tests rely on: they come back with their data, and leave nothing running."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis

from tests.servers import PostgresServer, Proxy, RedisCluster, RedisServer, SentinelTrio, Server, shared
from tests.servers.framing import PostgresFraming, RespFraming
from tests.servers.server import HOST, ServerFailed, is_listening, until

ROOT = Path(__file__).parents[2]
ABANDONED = """
import os, sys
from pathlib import Path
from tests.servers import PostgresServer, RedisServer
server = {"redis": RedisServer, "postgres": PostgresServer}[sys.argv[1]](Path(sys.argv[2]) / "server").start()
server.freeze()
print(server.pid, server.port, flush=True)
os.kill(os.getpid(), 9)
"""
DELETING = {"rmtree", "unlink", "remove", "rmdir", "removedirs"}


def set_and_get(server: Server) -> None:
    """Store something, once, and see it."""
    if isinstance(server, RedisServer):
        server.ask("SET", "kept", "yes")
        return
    with psycopg.connect(server.url) as connection:
        connection.execute("create table kept (word text)")


def is_kept(server: Server) -> bool:
    """Whether it is still there."""
    if isinstance(server, RedisServer):
        return bool(server.ask("EXISTS", "kept"))
    with psycopg.connect(server.url) as connection:
        return connection.execute("select to_regclass('kept') is not null").fetchone() == (True,)


@pytest.fixture(params=["redis", "valkey", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of each product, which keeps what it was told."""
    made: Server = (
        PostgresServer(tmp_path)
        if request.param == "postgres"
        else RedisServer(
            tmp_path,
            binary="valkey" if request.param == "valkey" else "redis-server",
            appendonly=True,
            options={"appendfsync": "always"},
        )
    )
    with made:
        yield made


def test_a_server_keeps_its_data_and_port_over_a_kill_and_a_stop(server: Server) -> None:
    set_and_get(server)
    port, first = server.port, server.pid
    server.kill()
    assert not server.is_alive
    assert not is_listening(port)
    server.restart()
    second = server.pid
    server.restart()

    assert is_kept(server)
    assert (server.port, len({first, second, server.pid})) == (port, 3)


def test_what_was_only_said_to_be_stored_outlives_a_stop(tmp_path: Path) -> None:
    with PostgresServer(tmp_path) as server:
        set_and_get(server)
        for number in range(3):
            lazy = psycopg.connect(server.url, autocommit=True, options="-c synchronous_commit=off")
            lazy.execute("insert into kept values (%s)", (str(number),))
            server.restart()
            lazy.close()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("select count(*) from kept").fetchone() == (3,)


def test_a_frozen_server_answers_when_it_is_thawed(server: Server) -> None:
    set_and_get(server)
    server.freeze()
    with closing(socket.create_connection((HOST, server.port), 1)) as connection:
        connection.settimeout(0.2)
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(1)
    server.thaw()

    assert is_kept(server)


@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_a_server_ends_with_the_run_of_tests_that_started_it_and_nothing_is_deleted(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "somebody else's").touch()
    told = subprocess.run(
        [sys.executable, "-c", ABANDONED, name, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert told.returncode == -signal.SIGKILL, told.stderr
    pid, port = told.stdout.split()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the server has ended")

    until(lambda: not is_listening(int(port)), "its children, too")
    assert {path.name for path in tmp_path.iterdir()} == {"somebody else's", "server"}


def test_nothing_here_deletes_files_but_temporary_folders_their_own() -> None:
    found = [
        f"{file.name}:{node.lineno}"
        for file in Path(__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in DELETING
    ]
    assert found == []


def test_a_server_that_cannot_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="no-such-setting"):
        RedisServer(tmp_path, options={"no-such-setting": "1"}).start()


def test_a_cluster_serves_all_slots_from_three_nodes(tmp_path: Path) -> None:
    with (
        RedisCluster(tmp_path) as cluster,
        closing(redis.RedisCluster(host=HOST, port=cluster.port)) as client,
    ):
        for number in range(30):
            client.set(f"key-{number}", number)
        sizes = [server.ask("DBSIZE") for server in cluster.servers]

    assert sum(sizes) == 30
    assert min(sizes) > 0


@pytest.mark.slow
def test_sentinels_choose_the_replica_when_the_primary_is_killed(tmp_path: Path) -> None:
    with SentinelTrio(tmp_path) as trio:
        first = trio.primary()
        first.kill()
        until(lambda: trio.primary() is not first, "another primary is named")
        until(lambda: trio.primary().info("replication")["role"] == "master", "it takes writes")


@pytest.mark.parametrize("name", ["postgres", "redis", "redis-cluster"])
def test_a_shared_server_is_the_same_for_all_who_ask(name: str) -> None:
    first = shared(name)
    shared.cache_clear()

    assert shared(name) == first


def test_the_dropped_reply_was_to_a_request_that_took_effect() -> None:
    with Proxy(_port(shared("redis"))) as proxy, closing(_plain_client(proxy.port)) as client:
        client.delete("counter-of-drops")
        proxy.drop_reply(2)
        first = client.eval("return redis.call('incr', KEYS[1])", 1, "counter-of-drops")
        with pytest.raises(redis.ConnectionError):
            client.eval("return redis.call('incr', KEYS[1])", 1, "counter-of-drops")

        assert (first, client.get("counter-of-drops"), proxy.dropped) == (1, b"2", 1)
        client.delete("counter-of-drops")


def test_a_postgres_reply_is_dropped_after_its_statement() -> None:
    url = shared("postgres")
    with Proxy(_port(url)) as proxy, psycopg.connect(url, autocommit=True) as direct:
        direct.execute("create table drops (n int)")
        proxy.drop_every(3)
        through = psycopg.connect(url.replace(f":{_port(url)}/", f":{proxy.port}/"), autocommit=True)
        with pytest.raises(psycopg.OperationalError), through as connection:
            for number in range(4):
                connection.execute("insert into drops values (%s)", (number,))

        assert direct.execute("select count(*) from drops").fetchone() == (3,)
        direct.execute("drop table drops")


def test_a_proxy_refuses_stalls_and_heals() -> None:
    with Proxy(_port(shared("redis"))) as proxy, closing(_plain_client(proxy.port)) as client:
        client.ping()
        proxy.stall("replies")
        with pytest.raises(redis.TimeoutError):
            client.ping()
        proxy.refuse()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        proxy.heal()
        assert client.ping()


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].split("/")[0])


def _plain_client(port: int) -> redis.Redis:
    return redis.Redis(port=port, socket_timeout=0.5, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))


REPLIES = b"+OK\r\n:7\r\n$3\r\na\r\n\r\n*2\r\n*1\r\n$-1\r\n%1\r\n+k\r\n#t\r\n-ERR no\r\n"


def test_replies_are_told_apart_however_their_bytes_arrive() -> None:
    asked = b"".join(b"*1\r\n$%d\r\n%s\r\n" % (len(word), word) for word in [b"ping", b"EVALSHA"] * 3)
    for size in (1, 2, 3, 7, 100):
        framing = RespFraming()
        for start in range(0, len(asked), size):
            framing.sent(asked[start : start + size])
        pieces = [
            piece
            for start in range(0, len(REPLIES), size)
            for piece in framing.answered(REPLIES[start : start + size])
        ]
        assert b"".join(piece.data for piece in pieces) == REPLIES
        assert [piece.counts for piece in pieces] == [False, True, False, True, False]


def test_what_starts_a_session_is_no_reply_to_a_statement() -> None:
    framing = PostgresFraming()
    framing.sent((8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"))
    framing.sent((9).to_bytes(4, "big") + (196608).to_bytes(4, "big") + b"\0")
    ready = b"Z\0\0\0\5I"
    pieces = framing.answered(b"N" + b"R\0\0\0\x08\0\0\0\0" + ready + b"C\0\0\0\4" + ready)

    assert [piece.data[:1] for piece in pieces] == [b"N", b"R", b"Z", b"C", b"Z"]
    assert [piece.counts for piece in pieces] == [False, False, False, True, True]
    assert [piece.ends_reply for piece in pieces] == [False, False, True, False, True]
