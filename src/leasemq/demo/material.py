"""The files whose checksums are the demo's work, and how much of it each job is.

The files of a folder are copied, so that nobody changes them while several processes and a judge read.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from leasemq.clock import boot_ms
from leasemq.errors import InvalidSetting

MOST_BYTES = 8 << 20  # of one file; larger ones are left out
MOST_BYTES_IN_ALL = 256 << 20
_SIZES_BYTES = (32 << 10, 64 << 10, 128 << 10, 256 << 10)
_MEASURED_BYTES = 4 << 20
_MEASURED_MS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file and its size."""

    path: Path
    size_bytes: int


def written_pieces(target: Path, count: int) -> list[Piece]:
    """Write `count` files of 32 to 256 KiB, all different."""
    pieces = []
    for number in range(count):
        size = _SIZES_BYTES[number % len(_SIZES_BYTES)]
        path = target / f"picture-{number:04}.raw"
        path.write_bytes(hashlib.shake_128(path.name.encode()).digest(size))
        pieces.append(Piece(path=path, size_bytes=size))
    return pieces


def copied_pieces(source: Path, target: Path, count: int) -> list[Piece]:
    """Copy up to `count` files (and 256 MiB) from `source` and the folders in it; fewer if it has fewer.

    Raises: InvalidSetting if there is none to be read.
    """
    found = (path for path in sorted(source.rglob("*")) if _is_fit(path))
    pieces: list[Piece] = []
    for number, path in enumerate(islice(found, count)):
        if sum(piece.size_bytes for piece in pieces) > MOST_BYTES_IN_ALL - MOST_BYTES:
            break
        copy = target / f"{number:04}{path.suffix}"
        shutil.copyfile(path, copy)
        pieces.append(Piece(path=copy, size_bytes=copy.stat().st_size))
    if not pieces:
        limit = MOST_BYTES >> 20
        raise InvalidSetting(
            f"folder {str(source)!r} has no file of 1 byte to {limit} MiB that can be read; name another, "
            "or none: the demo then writes its own files"
        )
    return pieces


def _is_fit(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb"):
            return 0 < path.stat().st_size <= MOST_BYTES
    except OSError:
        return False


def bytes_per_ms() -> float:
    """Measure how fast this machine makes checksums just now."""
    block = bytes(_MEASURED_BYTES)
    rounds = 0
    began_ms = boot_ms()
    while (took_ms := boot_ms() - began_ms) < _MEASURED_MS:
        hashlib.sha256(block).digest()
        rounds += 1
    return rounds * _MEASURED_BYTES / took_ms


def passes(piece: Piece, work_ms: int, speed_bytes_per_ms: float) -> int:
    """How often a file is read and summed up so that it takes about `work_ms`, at least once."""
    return max(1, round(work_ms * speed_bytes_per_ms / piece.size_bytes))
