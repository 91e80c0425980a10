"""What a server is and how it is set up: refused below version 7, warned about where it may lose jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from secrets import token_hex

from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.keys import STORE
from leasemq.backends.redis.lane import Reply
from leasemq.backends.redis.scripts import script
from leasemq.backends.redis.settings import Layout, Settings
from leasemq.errors import CorruptRecord, IndeterminateWrite, SchemaTooNew, Unsupported
from leasemq.events import logger
from leasemq.protocol.insight import Capabilities, Durability

FORMAT = 1  # of what is stored
FLOOR = (7, 0)

_IDENTIFY = script("identify")
_VERSION = re.compile(r"(\d+)\.(\d+)")
_FSYNC = {"always": Durability.D2, "everysec": Durability.D1, "no": Durability.D1}
_KEEPS = "noeviction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What one server says of itself; None: it did not say."""

    product: str
    version: str
    is_node: bool  # of a Cluster
    eviction: str | None
    appends: bool | None
    fsync: str | None


async def checked(link: Link) -> Capabilities:
    """Answer what the store can do, and log what may lose jobs there.

    Raises: Unsupported, SchemaTooNew, BackendUnavailable.
    """
    servers = await _servers(link)
    for server in servers:
        check_server(server, link.settings)
    store_id = await _store_id(link)
    told = sorted({warning for server in servers for warning in warnings(server)})
    for warning in [one for one in told if one not in link.warned]:
        link.warned.add(warning)
        logger.warning("%s: %s", link.settings.place, warning)
    return Capabilities(
        backend="redis",
        durability=min(durability(server) for server in servers),
        store_id=store_id,
        server=f"{servers[0].product} {servers[0].version}",
        processes=True,
        push=True,
        exchange=True,
        transactions=False,
        warnings=tuple(told),
    )


def check_server(server: Server, settings: Settings) -> None:
    """Refuse what cannot work. Raises: Unsupported."""
    found = _VERSION.match(server.version)
    if found and (int(found[1]), int(found[2])) < FLOOR:
        raise Unsupported(
            f"{settings.place} is {server.product} {server.version}; LeaseMQ needs Redis 7.0 or Valkey 7.2"
        )
    if server.is_node and settings.layout is not Layout.CLUSTER:
        raise Unsupported(f"{settings.place} belongs to a Cluster: use redis+cluster://")


def durability(server: Server) -> Durability:
    """Answer what an accepted job survives there. Replicas add nothing: they are told after the answer."""
    if not server.appends:
        return Durability.D0
    return _FSYNC.get(server.fsync or "", Durability.D1)


def warnings(server: Server) -> Iterator[str]:
    """Answer what about a server may lose jobs, or could not be looked at."""
    if server.eviction is None:
        yield "maxmemory-policy could not be read (INFO is not allowed); it must be noeviction"
    elif server.eviction != _KEEPS:
        yield f"maxmemory-policy is {server.eviction}: full, it throws jobs away; set noeviction"
    if server.appends is None:
        yield "persistence could not be read (INFO is not allowed); counted as none, durability D0"
    elif not server.appends:
        yield "appendonly is off: a restart loses jobs, durability D0; set appendonly yes"
    elif server.fsync is None:
        yield "appendfsync could not be read (CONFIG GET is not allowed); counted as everysec, durability D1"
    elif server.fsync == "no":
        yield "appendfsync is no: a power cut loses what was not written yet; set everysec or always"


def server_of(info: bytes | None, fsync: str | None) -> Server:
    """Read what INFO answered."""
    fields = dict(_fields(info or b""))
    is_valkey = "valkey_version" in fields
    appends = fields.get("aof_enabled")
    return Server(
        product="Valkey" if is_valkey else "Redis",
        version=fields.get("valkey_version" if is_valkey else "redis_version", "of an unknown version"),
        is_node=fields.get("redis_mode") == "cluster" or fields.get("server_mode") == "cluster",
        eviction=fields.get("maxmemory_policy"),
        appends=None if appends is None else appends == "1",
        fsync=fsync,
    )


async def _servers(link: Link) -> list[Server]:
    infos = await link.told("INFO")
    configs = await link.told("CONFIG", "GET", "appendfsync")
    return [
        server_of(info if isinstance(info, bytes) else None, _configured(config))
        for info, config in zip(infos, configs, strict=True)
    ]


def _configured(config: object) -> str | None:
    match config:
        case [_, bytes() as value]:
            return value.decode()
    return None


def _fields(info: bytes) -> Iterator[tuple[str, str]]:
    for line in info.decode(errors="replace").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            yield name, value


async def _identified(link: Link, asks: int = 3) -> Reply:
    """Ask who the store is; a repeat changes nothing, so a lost answer is asked for again."""
    try:
        return await link.call_tag(_IDENTIFY, STORE, token_hex(16), FORMAT)
    except IndeterminateWrite:
        if asks == 1:
            raise
    return await _identified(link, asks - 1)


async def _store_id(link: Link) -> str:
    reply = await _identified(link)
    match reply:
        case [bytes() as store_id, bytes() as stored] if stored.isdigit():
            if int(stored) > FORMAT:
                raise SchemaTooNew(
                    f"{link.settings.place} was written in format {int(stored)} by a newer release; "
                    f"this one knows {FORMAT}: upgrade it"
                )
            return store_id.decode()
    raise CorruptRecord(f"{link.settings.place} does not say who it is: {reply!r:.100}")
