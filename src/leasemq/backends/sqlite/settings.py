"""How one store is used, and how a URL says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from leasemq.clock import Clock
from leasemq.errors import InvalidSetting
from leasemq.protocol.names import mask_url

Sync = Literal["full", "normal", "off"]

NAMESPACE = "leasemq"
BUSY_TIMEOUT_MS = 5_000

_SCHEME = "sqlite"
_PARAMETERS = ("busy_timeout_ms", "namespace", "sync")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every part of the backend needs to know."""

    path: str
    namespace: str
    sync: Sync
    clock: Clock
    busy_timeout_ms: int
    event_limit: int
    request_limit: int
    is_prepared: bool = False  # so that a file which is gone by now is missed, not made anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What a URL says."""

    path: str
    namespace: str
    sync: Sync
    busy_timeout_ms: int


def check_settings(path: str | Path, sync: str, *, inline: bool, busy_timeout_ms: int) -> None:
    """Refuse what cannot work, before anything is opened. Raises: InvalidSetting."""
    if str(path) in ("", ".", ":memory:"):
        raise InvalidSetting(f"path {str(path)!r} names no file; use a path such as 'jobs.db', or memory://")
    if sync not in get_args(Sync):
        raise InvalidSetting(f"sync is {sync!r}; use 'full' or 'normal'")
    if sync == "off" and not inline:
        raise InvalidSetting("sync 'off' is for tests: it needs inline=True; use 'full' or 'normal'")
    if type(busy_timeout_ms) is not int or busy_timeout_ms <= 0:
        raise InvalidSetting(f"busy_timeout_ms is {busy_timeout_ms!r}; use a positive integer")


def located(url: str) -> Location:
    """Read `sqlite:///relative.db` or `sqlite:////absolute.db`, with parameters. Raises: InvalidSetting."""
    parts = urlsplit(url)
    if parts.scheme != _SCHEME or parts.netloc or parts.fragment or len(parts.path) < 2:
        raise InvalidSetting(
            f"{mask_url(url)} is not of the form sqlite:///relative.db or sqlite:////absolute.db"
        )
    asked = parse_qsl(parts.query, keep_blank_values=True)
    values = dict(asked)
    unknown = sorted(values.keys() - set(_PARAMETERS))
    if unknown or len(values) < len(asked):
        what = ", ".join(unknown) or "a parameter given twice"
        raise InvalidSetting(f"{mask_url(url)} has {what}; known are {', '.join(_PARAMETERS)}, each once")
    path = unquote(parts.path[1:])
    if "\x00" in path:
        raise InvalidSetting(f"{mask_url(url)} has a null character in its path, which no file can have")
    return Location(
        path=path,
        namespace=values.get("namespace", NAMESPACE),
        sync=_sync(values.get("sync", "full")),
        busy_timeout_ms=_milliseconds(values.get("busy_timeout_ms", str(BUSY_TIMEOUT_MS))),
    )


def path_of(url: str) -> Path:
    """Answer the file that a URL names. Raises: InvalidSetting."""
    return Path(located(url).path)


def _sync(text: str) -> Sync:
    match text:
        case "full" | "normal":
            return text
    raise InvalidSetting(f"sync is {text!r}; use 'full' or 'normal'")


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidSetting(f"busy_timeout_ms is {text!r}; use a positive integer")
    return int(text)
