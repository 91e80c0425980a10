"""What the server is: its version, and what a commit of ours survives there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import AsyncConnection

from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.wire import Row
from leasemq.errors import Unsupported
from leasemq.protocol.insight import Durability

logger = logging.getLogger("leasemq")

OLDEST = 130_000  # the first with transaction ids of 64 bits to compare by

_ASKED = ("fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names")
_NO_NOTIFICATIONS = (
    "notify=off: behind a transaction pooler LISTEN cannot be relied on, so new jobs, ends and events are "
    "looked for twice a second"
)
_said: set[tuple[str, str]] = set()
_WAITS_FOR_STANDBYS = frozenset({"on", "remote_apply"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What was found at `prepare`."""

    product: str
    durability: Durability
    warnings: tuple[str, ...] = ()


async def found(connection: AsyncConnection[Row], settings: Settings) -> Server:
    """Look at the server behind a connection of ours, and log what an operator should know.

    Raises: Unsupported if it is too old; psycopg.Error.
    """
    number = connection.info.server_version
    version = connection.info.parameter_status("server_version") or str(number)
    if number < OLDEST:
        raise Unsupported(
            f"{settings.place} is PostgreSQL {version}; LeaseMQ needs {OLDEST // 10_000} or later"
        )
    cursor = await connection.execute(
        b"SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(string_to_array($1, ','))",
        [",".join(_ASKED)],
    )
    told: Mapping[str, str] = {str(name): str(setting) for name, setting in await cursor.fetchall()}
    durability, warnings = judged(told)
    if not settings.notify:
        warnings = (*warnings, _NO_NOTIFICATIONS)
    for warning in warnings:
        _say_once(settings.place, warning)
    return Server(product=f"PostgreSQL {version}", durability=durability, warnings=warnings)


def _say_once(place: str, warning: str) -> None:
    """Log it, unless this process has already: every app and every command prepares its backend."""
    if (place, warning) not in _said:
        _said.add((place, warning))
        logger.warning("%s: %s", place, warning)


def judged(told: Mapping[str, str]) -> tuple[Durability, tuple[str, ...]]:
    """Answer what a commit survives under these settings, and what an operator should know.

    https://www.postgresql.org/docs/current/runtime-config-wal.html
    """
    if told.get("synchronous_commit") == "off":
        return Durability.D0, (
            "synchronous_commit is off: a crash of the server loses jobs whose enqueue has returned",
        )
    if told.get("fsync") == "off":
        return Durability.D1, ("fsync is off: a power cut may lose or damage everything",)
    if told.get("full_page_writes") == "off":
        return Durability.D1, ("full_page_writes is off: a power cut may damage what is stored",)
    waits = told.get("synchronous_commit") in _WAITS_FOR_STANDBYS
    if told.get("synchronous_standby_names") and waits:
        return Durability.D3, ()
    return Durability.D2, ()
