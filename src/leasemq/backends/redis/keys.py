"""Which keys are ours: everything of one queue has one hash tag, and so one slot of a Cluster.

A tag is what stands between the first `{` and the next `}` of a key; an empty one does not count, and then
the whole key does (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags).
So braces in names are escaped, and no name is empty.
"""

from __future__ import annotations

from typing import Final

REGISTRY: Final = "%/registry"  # the names of the queues
WORKERS: Final = "%/workers"
SCHEDULES: Final = "%/schedules"
STORE: Final = "%/store"  # who the store is

_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


def escaped(name: str) -> str:
    """Answer a name without braces. No two names become alike, and none begins with `%/`."""
    return name.translate(_ESCAPES)


def unescaped(name: str) -> str:
    """Answer the name that was escaped to this."""
    return name.replace("%7D", "}").replace("%7B", "{").replace("%25", "%")


def queue_prefix(namespace: str, queue: str) -> bytes:
    """Answer what every key of a queue begins with. It never is a key itself."""
    return tag_prefix(namespace, escaped(queue))


def tag_prefix(namespace: str, tag: str) -> bytes:
    """Answer what every key of a tag of our own begins with: one that begins with `%/`."""
    return f"{escaped(namespace)}:{{{tag}}}:".encode()


def channel(namespace: str) -> bytes:
    """Answer the channel on which a namespace's scripts tell what happened."""
    return f"{escaped(namespace)}:{{%/told}}".encode()
