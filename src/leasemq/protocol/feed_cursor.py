"""The cursor of a whole feed as plain text: where a reader stands in each queue.

`1:STORE:QUEUE=CURSOR,QUEUE=CURSOR;` with the names percent-encoded: the version, the first characters of the
store's id, and the queues in the order of their bytes. The last character shows that nothing was cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from leasemq.errors import InvalidCursor
from leasemq.protocol.insight import BEGINNING
from leasemq.protocol.names import shown_value

_VERSION = "1"
_STORE_CHARACTERS = 8
_END = ";"


class Bookmark:
    """Where a reader stands in each queue. Owner: the reader."""

    def __init__(self, store_id: str, positions: Mapping[str, str]) -> None:
        self._head = f"{_VERSION}:{_store(store_id)}:"
        self._positions = dict(sorted(positions.items()))
        self._entries = {queue: _entry(queue, cursor) for queue, cursor in self._positions.items()}

    def at(self, queue: str) -> str:
        """Answer the cursor in a queue; one that is new had no event when the reader began."""
        return self._positions.get(queue, BEGINNING)

    @property
    def positions(self) -> Mapping[str, str]:
        """The cursor in each queue."""
        return self._positions

    def move(self, queue: str, cursor: str) -> None:
        """Stand after this cursor of the queue."""
        is_new = queue not in self._positions
        self._positions[queue] = cursor
        self._entries[queue] = _entry(queue, cursor)
        if is_new:
            self._positions = dict(sorted(self._positions.items()))
            self._entries = {name: self._entries[name] for name in self._positions}

    @property
    def text(self) -> str:
        """The cursor that stands for all of them."""
        return f"{self._head}{','.join(self._entries.values())}{_END}"


def positions_in(text: object, store_id: str) -> dict[str, str]:
    """Answer the cursor in each queue. Raises: InvalidCursor for what is not one of this store's."""
    version, _, rest = (text if isinstance(text, str) else "").partition(":")
    store, _, entries = rest.partition(":")
    if version != _VERSION or not entries.endswith(_END):
        raise _invalid(text, "is broken, cut off, or no cursor of a feed")
    if store != _store(store_id):
        raise _invalid(text, "is of another store")
    listed = entries[: -len(_END)]
    pairs = [part.partition("=") for part in listed.split(",")] if listed else []
    positions = {unquote(queue): unquote(cursor) for queue, _, cursor in pairs}
    if Bookmark(store_id, positions).text != text:
        raise _invalid(text, "is broken")
    return positions


def _invalid(text: object, what: str) -> InvalidCursor:
    return InvalidCursor(f"cursor {shown_value(text)} {what}; pass event.cursor as it was given")


def _entry(queue: str, cursor: str) -> str:
    return f"{quote(queue, safe='')}={quote(cursor, safe='')}"


def _store(store_id: str) -> str:
    return quote(store_id[:_STORE_CHARACTERS], safe="")
