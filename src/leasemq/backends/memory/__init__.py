"""Jobs in this process's memory: for tests and demos, and the specification for the other backends."""

from leasemq.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
