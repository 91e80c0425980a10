"""The garbage collector of a process that is there to run jobs.

A job makes some dozens of objects and leaves no cycle behind, yet Python looks for cycles at every seven
hundred of them, and now and then through all that was ever imported: an eighth of a worker's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

DEFAULT_THRESHOLD = (700, 10, 10)  # CPython's own
YOUNG = 10_000  # objects that may be made between two looks: some megabytes at most


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look seldom for cycles meanwhile, and not at all in what is there already; an app's choice stands."""
    if not gc.isenabled() or gc.get_threshold() != DEFAULT_THRESHOLD:
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *DEFAULT_THRESHOLD[1:])
    try:
        yield
    finally:
        gc.set_threshold(*DEFAULT_THRESHOLD)
        gc.unfreeze()
