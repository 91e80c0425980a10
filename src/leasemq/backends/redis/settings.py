"""How one store is reached, and how a URL says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from leasemq.clock import Clock
from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import EVENT_LIMIT
from leasemq.protocol.names import check_namespace, mask_url, shown

NAMESPACE = "leasemq"
TIMEOUT_MS = 5_000  # without any answer for so long, a connection counts as dead
CONNECT_TIMEOUT_MS = 2_500
REQUEST_LIMIT = 10_000

_PORT = 6_379
_SENTINEL_PORT = 26_379
_MAX_MS = 600_000
_MAX_DB = 1_000_000


class Layout(StrEnum):
    """How the servers stand together."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_LAYOUTS = {
    "redis": Layout.SINGLE,
    "rediss": Layout.SINGLE,
    "valkey": Layout.SINGLE,
    "redis+sentinel": Layout.SENTINEL,
    "redis+cluster": Layout.CLUSTER,
}
_FILES = ("ca_file", "cert_file", "key_file")
_OF_ALL = (*_FILES, "connect_timeout_ms", "namespace", "timeout_ms", "tls", "tls_verify")
_OF_SENTINEL = ("sentinel_password", "sentinel_username")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who we are to a server. The password is never shown."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How connections are encrypted, and whom we trust; by default the system's authorities."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every part of the backend needs to know."""

    addresses: tuple[Address, ...]
    layout: Layout = Layout.SINGLE
    service: str = ""  # what Sentinels call the primary
    db: int = 0
    credentials: Credentials = Credentials()
    sentinel_credentials: Credentials = Credentials()
    tls: Tls | None = None
    namespace: str = NAMESPACE
    timeout_ms: int = TIMEOUT_MS
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    event_limit: int = EVENT_LIMIT
    request_limit: int = REQUEST_LIMIT
    clock: Clock | None = None  # for tests; by default the server's own is read

    @property
    def place(self) -> str:
        """How the store is called in errors: without any secret."""
        hosts = ",".join(map(str, self.addresses))
        named = f"{hosts}/{self.service}" if self.service else hosts
        return shown(f"{named}/{self.db}" if self.db else named)


def located(url: str) -> Settings:
    """Read a URL. Raises: InvalidSetting, InvalidName.

    `redis://user:password@host:6379/0`, `rediss://` (TLS), `valkey://`,
    `redis+sentinel://host:26379,host:26379/primary/0`, `redis+cluster://host:6379,host:6379`.
    """
    scheme, _, rest = url.partition("://")
    layout = _LAYOUTS.get(scheme)
    if layout is None or "#" in rest:
        raise InvalidSetting(f"{mask_url(url)} is not of the form redis://user:password@host:6379/0")
    if set(rest.rpartition("@")[0]) & set("/?"):
        raise InvalidSetting(f"{mask_url(url)} has a / ? or @ that is not escaped; write %2F, %3F, %40")
    try:
        parts = urlsplit(f"//{rest}")
    except ValueError:
        raise InvalidSetting(f"{mask_url(url)} has brackets around what is no IPv6 address") from None
    asked = _parameters(url, parts.query, layout)
    who, _, hosts = parts.netloc.rpartition("@")
    service, db = _path(url, parts.path, layout)
    return Settings(
        addresses=_addresses(url, hosts, layout),
        layout=layout,
        service=service,
        db=db,
        credentials=_credentials(who),
        sentinel_credentials=Credentials(
            username=asked.get("sentinel_username") or None, password=asked.get("sentinel_password") or None
        ),
        tls=_tls(scheme, asked),
        namespace=check_namespace(asked.get("namespace", NAMESPACE)),
        timeout_ms=_milliseconds("timeout_ms", asked, TIMEOUT_MS),
        connect_timeout_ms=_milliseconds("connect_timeout_ms", asked, CONNECT_TIMEOUT_MS),
    )


def _parameters(url: str, query: str, layout: Layout) -> Mapping[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    values = dict(pairs)
    known = sorted((*_OF_ALL, *(_OF_SENTINEL if layout is Layout.SENTINEL else ())))
    unknown = sorted(values.keys() - set(known))
    if unknown or len(values) < len(pairs):
        what = ", ".join(map(shown, unknown)) or "a parameter given twice"
        raise InvalidSetting(f"{mask_url(url)} has {what}; known are {', '.join(known)}, each once")
    return values


def _addresses(url: str, hosts: str, layout: Layout) -> tuple[Address, ...]:
    port = _SENTINEL_PORT if layout is Layout.SENTINEL else _PORT
    found = tuple(_address(url, host, port) for host in hosts.split(","))
    if layout is Layout.SINGLE and len(found) > 1:
        raise InvalidSetting(
            f"{mask_url(url)} names {len(found)} hosts; use one, or redis+sentinel:// or redis+cluster://"
        )
    return found


def _address(url: str, text: str, port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        host, given = parts.hostname, parts.port
    except ValueError:  # whose text may show a piece of a password
        raise InvalidSetting(f"{mask_url(url)} has a port or host that is none; use host:{port}") from None
    if not host or given == 0:
        raise InvalidSetting(f"{mask_url(url)} names no host; use host:{port}")
    return Address(host, port if given is None else given)


def _path(url: str, path: str, layout: Layout) -> tuple[str, int]:
    """Answer the service that Sentinels know, and the database."""
    steps = [unquote(step) for step in path.strip("/").split("/")] if path.strip("/") else []
    service = ""
    if layout is Layout.SENTINEL:
        if not steps:
            raise InvalidSetting(
                f"{mask_url(url)} does not name the primary; use redis+sentinel://host:{_SENTINEL_PORT}/mymaster"
            )
        service = steps.pop(0)
    if len(steps) > 1:
        raise InvalidSetting(f"{mask_url(url)} has a path too long; the database is a number, as in /0")
    db = _number("the database", steps[0], _MAX_DB) if steps else 0
    if db and layout is Layout.CLUSTER:
        raise InvalidSetting(f"{mask_url(url)} names database {db}; a Cluster has only 0: use ?namespace=")
    return service, db


def _credentials(who: str) -> Credentials:
    username, _, password = who.partition(":")
    return Credentials(username=unquote(username) or None, password=unquote(password) or None)


def _tls(scheme: str, asked: Mapping[str, str]) -> Tls | None:
    files = {name: asked[name] for name in _FILES if name in asked}
    if not _switch("tls", asked, is_on=scheme == "rediss"):
        if scheme == "rediss":
            raise InvalidSetting("tls is 'off' but the URL says rediss://; use redis://")
        if given := sorted({*files, "tls_verify"} & asked.keys()):
            raise InvalidSetting(f"{given[0]} is given, but TLS is off: use rediss://, or tls=on")
        return None
    if not all(files.values()) or ("key_file" in files and "cert_file" not in files):
        raise InvalidSetting("ca_file, cert_file and key_file are paths, and a key_file needs a cert_file")
    return Tls(**files, verify=_switch("tls_verify", asked, is_on=True))


def _switch(name: str, asked: Mapping[str, str], *, is_on: bool) -> bool:
    match asked.get(name):
        case None:
            return is_on
        case "on":
            return True
        case "off":
            return False
        case text:
            raise InvalidSetting(f"{name} is {shown(text, 60)!r}; use 'on' or 'off'")


def _milliseconds(name: str, asked: Mapping[str, str], default: int) -> int:
    return _number(name, asked[name], _MAX_MS, least=1) if name in asked else default


def _number(name: str, text: str, most: int, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise InvalidSetting(f"{name} is {shown(text, 60)!r}; use a whole number from {least} to {most:,}")
    return int(text)
