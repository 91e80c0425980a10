"""Throwaway servers, and a proxy that stands before one and harms its connections."""

from tests.servers.depot import Depot, shared
from tests.servers.postgres_server import PostgresServer
from tests.servers.proxy import Proxy
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.servers.sentinel_trio import SentinelTrio
from tests.servers.server import Server, ServerFailed

__all__ = [
    "Depot",
    "PostgresServer",
    "Proxy",
    "RedisCluster",
    "RedisServer",
    "SentinelTrio",
    "Server",
    "ServerFailed",
    "shared",
]
