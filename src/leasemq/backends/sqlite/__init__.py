"""Jobs in one SQLite file: the embedded default, for many processes on one machine."""

from leasemq.backends.sqlite.backend import SqliteBackend, from_url
from leasemq.backends.sqlite.schema import holds_store
from leasemq.backends.sqlite.settings import path_of

__all__ = ["SqliteBackend", "from_url", "holds_store", "path_of"]
