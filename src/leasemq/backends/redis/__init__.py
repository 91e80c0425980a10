"""Redis and Valkey: a script per operation, alone, behind Sentinel, or on a Cluster."""

from leasemq.backends.redis.backend import RedisBackend
from leasemq.backends.redis.settings import located

__all__ = ["RedisBackend", "from_url"]


def from_url(url: str) -> RedisBackend:
    """Answer the backend that a URL names, not yet prepared. Raises: InvalidSetting, InvalidName."""
    return RedisBackend(located(url))
