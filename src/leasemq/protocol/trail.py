"""A job's own trail, page by page: what a cursor is, and what fits on a page. The same on every backend."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from leasemq.errors import InvalidCursor
from leasemq.protocol.insight import PAGE_BYTES, TrailEntry, TrailPage
from leasemq.protocol.model import Ref
from leasemq.protocol.names import shown, shown_value

TRAIL_PAGE = 1_000  # entries on a page, at most


def trail_after(cursor: object, ref: Ref, newest: int) -> int:
    """Answer the number of the last entry that was seen; 0: none was.

    Args:
        ref: whose trail is asked for: a cursor of another job, or of another life of it, is refused.
        newest: the last number given there.

    Raises: InvalidCursor.
    """
    if cursor is None:
        return 0
    number, _, mark = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 20
    if not is_number or mark != _mark(ref) or int(number) > newest:
        raise InvalidCursor(
            f"cursor {shown_value(cursor)} was not given by an earlier page of the history of job "
            f"{shown(ref.id)}, generation {ref.generation}; leave it out to begin with the oldest entry kept"
        )
    return int(number)


def trail_page(ref: Ref, oldest: int, after: int, entries: Iterable[TrailEntry]) -> TrailPage:
    """Answer a page of entries, cut where their values have `PAGE_BYTES`; the first always fits.

    Args:
        oldest: the number of the oldest entry kept; 0: there is none.
        after: what `trail_after` made of the cursor.
        entries: those after it, oldest first, no more than may go on the page.
    """
    page: list[TrailEntry] = []
    left = PAGE_BYTES
    for entry in entries:
        left -= len(entry.value or b"")
        if left < 0 and page:
            break
        page.append(entry)
    last = page[-1].number if page else max(after, oldest - 1)
    return TrailPage(entries=tuple(page), cursor=f"{last}.{_mark(ref)}", truncated=after < oldest - 1)


def _mark(ref: Ref) -> str:
    """What a cursor says of the life that it belongs to."""
    told = f"{len(ref.queue)} {ref.queue} {ref.id} {ref.generation}"
    return hashlib.blake2b(told.encode(), digest_size=6).hexdigest()
