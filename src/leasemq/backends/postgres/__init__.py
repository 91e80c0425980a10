"""PostgreSQL: rows in a schema of its own, claimed with SKIP LOCKED; a statement per batch."""

from leasemq.backend import Backend
from leasemq.errors import Unsupported


def from_url(url: str) -> Backend:
    """Answer the backend that a URL names, not yet prepared."""
    raise Unsupported("this backend is being built")
