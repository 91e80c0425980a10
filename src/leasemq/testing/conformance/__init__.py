"""The conformance suite: what every backend of LeaseMQ must do, as tests that anyone can run.

It tests behaviour through `leasemq.backend.Backend` alone, on a fresh store per test and under a clock
that the tests move by hand. To run it against a backend of your own, write one test module::

    import pytest
    from leasemq.testing.conformance import *  # noqa: F403  the suite is a star import by design

    pytestmark = pytest.mark.asyncio  # not needed where asyncio_mode = "auto"

    @pytest.fixture
    def open_backend(tmp_path, clock):
        return lambda: MyBackend(tmp_path / "jobs.store", clock=clock)

`open_backend` answers a function. Each call makes one more backend object, not prepared yet, on the *same*
fresh store: a view, as another process would have one. Where a store cannot be shared, answer the same
object each time. `clock` is the suite's `ManualClock`; called, it answers ms since the epoch, and every
view must take its time from it.

Three more fixtures may be defined; without one, the tests that need it are skipped:

* `plant_corruption`: a list of async functions (queue, id), each making that record unreadable in another
  way behind the backend's back, for P-99; an empty list says that nothing it stores can be damaged;
* `count_statements`: a function that answers how many statements or commands were sent so far, for the
  tests that the cost of a call does not grow with what is stored;
* `find_orphans`: a function that answers, a line each, the rows or keys that belong to no job.

The suite needs pytest and pytest-asyncio, and the marker `promise(*ids)` in your pytest settings. Each
test names the promises of SPEC.md that it shows. The fixture `books` reads the books after every test:
the stored counts add up and equal what reading all jobs finds, and follow-ups come to an end.

What a backend declares in `Capabilities` is tested; what it does not declare is left out. A capability
that is declared and not kept fails the suite.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

MODULES = (
    "enqueueing",
    "claiming",
    "order",
    "fences",
    "settling",
    "repeats",
    "recovery",
    "suspects",
    "deadlines",
    "uniqueness",
    "merging",
    "generations",
    "cancelling",
    "pausing",
    "operating",
    "replaying",
    "dependants",
    "event_feed",
    "event_truth",
    "retention",
    "results",
    "scheduling",
    "registry",
    "listening",
    "notes",
    "trails",
    "counting",
    "standing",
    "why_not_started",
    "why_started",
    "reading",
    "naming",
    "corruption",
    "batches",
    "clock_steps",
    "declaring",
    "joining",
)


def _tests_of(module: ModuleType) -> dict[str, object]:
    """The tests defined in a module."""
    names = [name for name in vars(module) if name.startswith("test_")]
    return {name: vars(module)[name] for name in names if vars(module)[name].__module__ == module.__name__}


def _gather() -> dict[str, object]:
    """Every fixture and every test of the suite by name; a name used twice would hide a test."""
    fixtures = import_module(f"{__name__}.fixtures")
    gathered: dict[str, object] = {name: vars(fixtures)[name] for name in fixtures.__all__}
    for name in MODULES:
        for test, function in _tests_of(import_module(f"{__name__}.{name}")).items():
            assert test not in gathered, f"two tests of the suite are named {test}"
            gathered[test] = function
    return gathered


# Asserts explain themselves only in modules that pytest rewrites, which it does when they are first imported.
pytest.register_assert_rewrite(
    *(f"{__name__}.{name}" for name in (*MODULES, "books", "queue_under_test", "relay", "asking"))
)

_PUBLIC = _gather()
globals().update(_PUBLIC)
__all__ = list(_PUBLIC)
