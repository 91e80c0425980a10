"""How many records are read at once, so that what they store does not fill the memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leasemq.protocol.insight import PAGE_BYTES, JobRecord, Slip, values_bytes

READ_LIMIT = 500  # records read at once,
READ_BYTES = 4 * PAGE_BYTES  # and about how much of them
_HEAVY_BYTES = 64 * 1024  # what a record may have, as long as none was read


class Portion:
    """How many to read next, judged by those that were read last. Owner: whoever reads."""

    def __init__(self) -> None:
        self.limit = READ_BYTES // _HEAVY_BYTES
        self.read_bytes = 0  # since its owner last set it back

    def weigh(self, found: Iterable[JobRecord | Slip | None]) -> None:
        """Read as many at once, from here on, as fit if they are like these."""
        sizes_bytes: Sequence[int] = [_size_bytes(one) for one in found if one is not None]
        if sizes_bytes:
            read_bytes = sum(sizes_bytes)
            self.read_bytes += read_bytes
            self.limit = min(max(1, READ_BYTES * len(sizes_bytes) // max(1, read_bytes)), READ_LIMIT)


def _size_bytes(one: JobRecord | Slip) -> int:
    return values_bytes(one) if isinstance(one, JobRecord) else len(one.result)
