"""PostgreSQL: rows in a schema of its own, claimed with SKIP LOCKED; a statement per batch."""

from leasemq.backends.postgres.backend import PostgresBackend
from leasemq.backends.postgres.settings import Settings, located

__all__ = ["PostgresBackend", "from_url"]


def from_url(url: str) -> PostgresBackend:
    """Answer the backend that a URL names, not yet prepared. Raises: InvalidSetting, InvalidName."""
    location = located(url)
    return PostgresBackend(
        Settings(
            conninfo=location.conninfo,
            place=location.place,
            schema=location.schema,
            notify=location.notify,
        )
    )
