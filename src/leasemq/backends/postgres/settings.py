"""How one store is used, and how a URL says it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from leasemq.clock import Clock
from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import EVENT_LIMIT
from leasemq.protocol.names import check_namespace, mask_url, shown

NAMESPACE = "leasemq"
STATEMENT_MS = 10_000
REQUEST_MS = 12_000  # more than the server gives itself: one that lives says what became of it
LOCK_MS = 2_000

_OURS = ("namespace", "notify", "schema")
_SCHEMES = ("postgresql", "postgres")
_LONGEST_IDENTIFIER_BYTES = 63  # NAMEDATALEN - 1: what is longer is cut, and two names might become one

_WORDS = {  # of libpq's parameters: it refuses others only when it connects
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "load_balance_hosts": ("disable", "random"),
}
_HIGHEST_PORT = 65_535

# What libpq is told unless the URL says otherwise: a peer that is gone is noticed.
_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "30",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": str(REQUEST_MS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every part of the backend needs to know."""

    conninfo: str = field(repr=False)  # has the password: never shown
    place: str  # the same for people
    schema: str
    notify: bool = True  # False: behind a transaction pooler, so a session keeps nothing
    clock: Clock | None = None  # for tests; None: the server's own
    event_limit: int = EVENT_LIMIT
    request_limit: int = 10_000
    request_ms: int = REQUEST_MS
    statement_ms: int = STATEMENT_MS
    lock_ms: int = LOCK_MS

    @property
    def quoted_schema(self) -> str:
        """The schema as an identifier."""
        return quoted(self.schema)

    @property
    def channel(self) -> str:
        """The channel of this schema's notifications: `'leasemq_' || md5(schema)`."""
        return channel_of(self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What a URL says."""

    conninfo: str = field(repr=False)
    place: str
    schema: str
    notify: bool


def quoted(identifier: str) -> str:
    """Answer the identifier in quotation marks."""
    return '"' + identifier.replace('"', '""') + '"'


def channel_of(schema: str) -> str:
    """Answer the channel of a schema's notifications; as long for every schema."""
    return f"leasemq_{hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest()}"


def checked_schema(name: str) -> str:
    """Answer the name of a schema. Raises: InvalidName; InvalidSetting if it is too long or the server's."""
    check_namespace(name)
    size_bytes = len(name.encode())
    if size_bytes > _LONGEST_IDENTIFIER_BYTES:
        raise InvalidSetting(
            f"the schema {shown(name)!r} has {size_bytes} bytes; "
            f"PostgreSQL takes names of at most {_LONGEST_IDENTIFIER_BYTES}"
        )
    if name.startswith("pg_") or name == "information_schema":
        raise InvalidSetting(f"the schema {shown(name)!r} is one of the server's own; use another name")
    return name


def located(url: str) -> Location:
    """Read `postgresql://user:password@host:port/database?...`.

    Parameters of ours: `schema` (else `namespace`, else `leasemq`) and `notify` (on, off); all others are
    libpq's. Raises: InvalidSetting, InvalidName.
    """
    parts = _split(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    ours = _given_once(url, [(name, value) for name, value in asked if name in _OURS])
    rest = urlencode([(name, value) for name, value in asked if name not in _OURS], quote_via=quote)
    _check_known(url, [name for name, _ in asked if name not in _OURS])
    given = _understood(url, urlunsplit((*parts[:3], rest, "")))
    return Location(
        conninfo=make_conninfo("", **{**_DEFAULTS, "application_name": "leasemq", **given}),
        place=_place(given),
        schema=checked_schema(ours.get("schema") or ours.get("namespace") or NAMESPACE),
        notify=_switch(ours.get("notify", "on")),
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # whose message may quote the URL
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in _SCHEMES or parts.fragment:
        raise InvalidSetting(f"{mask_url(url)} is not of the form postgresql://user@host:port/database")
    if set(url.partition("://")[2].rpartition("@")[0]) & set("/?@"):  # else a password would count as a host
        raise InvalidSetting(f"{mask_url(url)} has a / ? or @ that is not escaped; write %2F, %3F, %40")
    return parts


def session_options(settings: Settings, given: str, *, synchronous_commit: bool) -> str:
    """Answer the `options` of a session: our settings, then those that the URL gives, which win."""
    ours = {
        "statement_timeout": settings.statement_ms,
        "lock_timeout": settings.lock_ms,
        "idle_in_transaction_session_timeout": settings.request_ms,
        "default_transaction_isolation": r"read\ committed",
        "jit": "off",
    }
    if not synchronous_commit:
        ours["synchronous_commit"] = "off"
    return " ".join([*(f"-c {name}={value}" for name, value in ours.items()), given]).strip()


def _given_once(url: str, asked: list[tuple[str, str]]) -> dict[str, str]:
    given = dict(asked)
    if len(given) < len(asked):
        raise InvalidSetting(f"{mask_url(url)} gives a parameter twice; give {', '.join(_OURS)} once each")
    return given


def _check_known(url: str, names: list[str]) -> None:
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    if unknown := sorted(set(names) - known):
        raise InvalidSetting(
            f"{mask_url(url)} has {', '.join(map(shown, unknown))}; known are {', '.join(_OURS)} "
            "and what libpq takes, such as sslmode, connect_timeout, target_session_attrs"
        )


def _understood(url: str, without_ours: str) -> dict[str, str]:
    """Answer libpq's reading of the URL. Its error may quote the whole of it, so it is not passed on."""
    try:
        given = conninfo_to_dict(without_ours)
    except (psycopg.Error, UnicodeError):
        raise InvalidSetting(
            f"{mask_url(url)} cannot be read by libpq: it is of the form "
            "postgresql://user:password@host:port/database?sslmode=require, with %-escapes in what it quotes"
        ) from None
    timeout = str(given.get("connect_timeout", "0"))
    if not (timeout.isascii() and timeout.isdigit()):
        raise InvalidSetting(f"connect_timeout is {shown(timeout)!r}; use a whole number of seconds")
    _check_words({name: str(value) for name, value in given.items()})
    return {name: str(value) for name, value in given.items()}


def _check_words(given: dict[str, str]) -> None:
    for name, words in _WORDS.items():
        if given.get(name, words[0]) not in words:
            raise InvalidSetting(f"{name} is {shown(given[name])!r}; use one of {', '.join(words)}")
    for port in filter(None, given.get("port", "").split(",")):  # one for each host
        if not (port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT):
            raise InvalidSetting(f"the port is {shown(port)!r}; use a number from 1 to {_HIGHEST_PORT}")


def _place(given: dict[str, str]) -> str:
    hosts = given.get("host") or given.get("hostaddr") or "local socket"
    port = f":{given['port']}" if "port" in given else ""
    return f"PostgreSQL at {shown(hosts)}{port}/{shown(given.get('dbname', given.get('user', '')))}"


def _switch(text: str) -> bool:
    match text:
        case "on" | "off":
            return text == "on"
    raise InvalidSetting(f"notify is {shown(text)!r}; use 'on', or 'off' behind a transaction pooler")
