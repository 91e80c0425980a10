"""Redis and Valkey: a script per operation, alone, behind Sentinel, or on a Cluster."""

from leasemq.backend import Backend
from leasemq.errors import Unsupported


def from_url(url: str) -> Backend:
    """Answer the backend that a URL names, not yet prepared."""
    raise Unsupported("this backend is being built")
