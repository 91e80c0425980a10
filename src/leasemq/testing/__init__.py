"""Tools to test with LeaseMQ: a harness for an app, virtual time, and the suite that every backend runs.

The names below are imported when they are first used, so that the pytest plugins stay light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasemq.testing.harness import Harness
    from leasemq.testing.imitated_process import Crash
    from leasemq.testing.looking import Ran, SeenJob

__all__ = ["Crash", "Harness", "Ran", "SeenJob"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from leasemq.testing.harness import Harness
    from leasemq.testing.imitated_process import Crash
    from leasemq.testing.looking import Ran, SeenJob

    names: dict[str, object] = {"Crash": Crash, "Harness": Harness, "Ran": Ran, "SeenJob": SeenJob}
    globals().update(names)
    return names[name]
