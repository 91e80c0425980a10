"""Which URL schemes there are, what each needs, and how a backend is opened from a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from leasemq.backend import Backend
from leasemq.errors import InvalidSetting, MissingExtra, UnknownScheme, Unsupported
from leasemq.protocol.names import check_namespace, mask_url, shown

Open = Callable[[str], Backend]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One kind of URL. `open` is None for a backend that this release does not have yet."""

    name: str
    open: Open | None = None
    in_process: bool = False  # whoever opens it again gets other jobs, so one object serves the process
    driver: str | None = None  # the module that must be installed
    extra: str | None = None  # the extra that installs it


def _open_memory(url: str) -> Backend:
    from leasemq.backends.memory import MemoryBackend

    parts = urlsplit(url)
    if unknown := parse_qs(parts.query).keys() - {"namespace"}:
        raise InvalidSetting(
            f"{mask_url(url)} has the parameter {shown(min(unknown))!r}; memory:// knows only namespace"
        )
    return MemoryBackend()


def _open_sqlite(url: str) -> Backend:
    from leasemq.backends.sqlite import from_url

    return from_url(url)


def _open_postgres(url: str) -> Backend:
    from leasemq.backends.postgres import from_url

    return from_url(url)


def _open_redis(url: str) -> Backend:
    from leasemq.backends.redis import from_url

    return from_url(url)


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(name="memory", open=_open_memory, in_process=True),
        Scheme(name="sqlite", open=_open_sqlite),
        Scheme(name="redis", open=_open_redis, driver="redis", extra="redis"),
        Scheme(name="rediss", open=_open_redis, driver="redis", extra="redis"),
        Scheme(name="redis+sentinel", open=_open_redis, driver="redis", extra="redis"),
        Scheme(name="redis+cluster", open=_open_redis, driver="redis", extra="redis"),
        Scheme(name="valkey", open=_open_redis, driver="redis", extra="redis"),
        Scheme(name="postgresql", open=_open_postgres, driver="psycopg", extra="postgres"),
        Scheme(name="postgres", open=_open_postgres, driver="psycopg", extra="postgres"),
        Scheme(name="mongodb", driver="pymongo", extra="mongodb"),
        Scheme(name="amqp", driver="aio_pika", extra="rabbitmq"),
    )
}


def checked_scheme(url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Scheme:
    """Answer the URL's scheme, once it is sure that its backend can be opened here.

    Raises: UnknownScheme; Unsupported for a backend of a later release; MissingExtra.
    """
    name, separator, _ = url.partition("://")
    here = ", ".join(f"{known}://" for known, scheme in schemes.items() if scheme.open is not None)
    if not separator or name not in schemes:
        remedy = "" if separator else f"; for a file say sqlite:///{shown(url.removeprefix('sqlite:'))}"
        raise UnknownScheme(
            f"no backend answers to the URL {mask_url(url)}; "
            f"known schemes are {', '.join(sorted(schemes))}{remedy}"
        )
    scheme = schemes[name]
    if scheme.open is None:
        raise Unsupported(f"{name}:// comes in a later release of LeaseMQ; this one has {here}")
    if scheme.driver is not None and find_spec(scheme.driver) is None:
        raise MissingExtra(
            f"{name}:// needs the package {scheme.driver}, which is not installed; "
            f"install it with: pip install 'leasemq[{scheme.extra}]'"
        )
    return scheme


def open_backend(url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Backend:
    """Answer the URL's backend, not yet prepared: no file or socket is touched.

    Raises: UnknownScheme, Unsupported, MissingExtra, InvalidSetting for a parameter that is not allowed.
    """
    scheme = checked_scheme(url, schemes)
    if scheme.open is None:
        raise Unsupported(f"{scheme.name}:// cannot be opened")
    return scheme.open(url)


def anchored(url: str, folder: Path | None) -> str:
    """Answer a URL that names the same file from every folder: a relative one counts from `folder`."""
    relative = url.removeprefix("sqlite:///")
    if folder is None or relative == url or relative.startswith("/"):
        return url
    return f"sqlite:///{quote(str(folder))}/{relative}"


def in_namespace(url: str, namespace: str) -> str:
    """Answer the URL with `?namespace=`. Raises: InvalidName; InvalidSetting if the URL names another."""
    check_namespace(namespace)
    named = parse_qs(urlsplit(url).query, keep_blank_values=True).get("namespace", [])
    if named and named != [namespace]:
        raise InvalidSetting(
            f"namespace={shown(namespace)!r} but the URL {mask_url(url)} names another; give it in one place"
        )
    if named:
        return url
    return f"{url}{'&' if '?' in url else '?'}namespace={quote(namespace, safe='')}"


def sqlite_path(url: str) -> str | None:
    """Answer the file that a sqlite URL names, None for another scheme."""
    if not url.startswith("sqlite://"):
        return None
    from leasemq.backends.sqlite import path_of

    return str(path_of(url))


def has_sqlite_store(url: str) -> bool:
    """Whether there is a store in the file that a sqlite URL names; the file is only read."""
    from leasemq.backends.sqlite import holds_store, path_of

    return holds_store(path_of(url))
