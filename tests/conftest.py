"""Shared by every test: known promises, hypothesis' settings, the watch over the event loop."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from blockbuster import BlockBuster

from leasemq.testing.promises import read_catalogue
from tests.servers.depot import DEPOT, Depot
from tests.servers.stores import SERVED, ServedStore, served_store

pytest.register_assert_rewrite("leasemq.testing.conformance")

CATALOGUE = read_catalogue(Path(__file__).parent / "promises.toml")
KNOWN_PROMISES = frozenset(promise.id for promise in CATALOGUE.promises)
ROWS_OF_CHECKS = re.compile(r"[EA]-\d+|B\d+")  # checks of the two systems compared with, and cases handed in

# Time limits per example would fail on a busy machine; pytest's own limit per test still holds. The same
# examples are drawn each time, so that a run says something about the change and not about the dice;
# `make fuzz` draws new ones.
FRESH = os.environ.get("LEASEMQ_FRESH") == "1"
LONG = os.environ.get("LEASEMQ_LONG") == "1"  # `make long`: the shows at full size
hypothesis.settings.register_profile("project", deadline=None, print_blob=True, derandomize=not FRESH)
hypothesis.settings.load_profile("project")


OPEN_DEPOT: list[Depot] = []  # of this process; at most one


def pytest_configure() -> None:
    """Let whatever this run starts ask for servers: workers of pytest-xdist find the depot that is open."""
    if DEPOT not in os.environ:
        OPEN_DEPOT.append(Depot())


def pytest_unconfigure() -> None:
    """End the servers of this run."""
    while OPEN_DEPOT:
        OPEN_DEPOT.pop().close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a mistyped promise: its test would silently count for nothing. Leave the long ones out."""
    unknown = {
        f"{item.nodeid}: {name}"
        for item in items
        for mark in item.iter_markers("promise")
        for name in mark.args
        if name not in KNOWN_PROMISES and not ROWS_OF_CHECKS.fullmatch(name)
    }
    if unknown:
        raise pytest.UsageError(
            "promises that tests/promises.toml does not list:\n" + "\n".join(sorted(unknown))
        )
    left_out = [] if LONG else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def no_blocking_call_in_the_loop() -> Iterator[None]:
    """A blocking call that the package makes inside a running loop raises.

    Locks are left out: a lock that another thread holds for a moment would fail tests by chance.
    """
    watch = BlockBuster(scanned_modules="leasemq", excluded_modules=["leasemq.testing"])
    watch.activate()
    for name in [name for name in watch.functions if name.startswith("threading.")]:
        watch.functions[name].deactivate()
    for function in watch.functions.values():  # an app that is made inside a loop reads pyproject.toml, once
        function.can_block_in("leasemq/settings.py", "read_project")
        # imports the backend at first use
        function.can_block_in("leasemq/client/schemes.py", ("_open_sqlite", "_open_postgres", "_open_redis"))
        function.can_block_in("leasemq/testing/player.py", "renew")  # a keeper would, in its own thread
    for function in watch.functions.values():  # `inline=True` runs SQLite in the loop, for virtual time
        function.can_block_in("leasemq/backends/sqlite/inline.py", ("__init__", "run_now", "close"))
        function.can_block_in("leasemq/backends/sqlite/schema.py", "prepared")
        function.can_block_in("leasemq/backends/sqlite/transacting.py", "run_here")
    yield
    watch.deactivate()


@pytest.fixture(scope="session")
def served_stores() -> Iterator[dict[str, ServedStore]]:
    """One store per server and process of tests, made at its first use."""
    stores: dict[str, ServedStore] = {}
    yield stores
    for store in stores.values():
        store.drop()


@pytest.fixture
def served(
    backend_name: str, served_stores: dict[str, ServedStore], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServedStore | None]:
    """The store of a backend that needs a server, cleared afterwards; None for the others."""
    if backend_name not in SERVED:
        yield None
        return
    if backend_name not in served_stores:
        served_stores[backend_name] = served_store(backend_name)
    store = served_stores[backend_name]
    store.lend_sessions(monkeypatch)
    yield store
    store.clear()
