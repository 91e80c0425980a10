"""Fixtures of the tests with real processes: on SQLite; on each backend those that are marked `by_url`."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.place import Place
from tests.servers.stores import LOCAL, SERVED, chosen

ALSO_ON_CLUSTER = {  # in each run: modules, and single tests
    "test_killed_workers",
    "test_ways_to_end",
    "test_results",
    "test_a_worker_frozen_in_the_middle_of_a_job_drops_it_when_it_comes_back",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the scenarios on each backend that processes share; what is about SQLite's file, on SQLite."""
    if "backend_name" in metafunc.fixturenames and not hasattr(metafunc.module, "backend_name"):
        names: Sequence[Any] = ["sqlite"]  # Any: a name, or pytest's parameter with one
        if metafunc.definition.get_closest_marker("by_url") is not None:
            is_slow = metafunc.definition.get_closest_marker("slow") is not None
            told = {metafunc.module.__name__.rpartition(".")[2], metafunc.function.__name__}
            names = chosen(besides=["memory"])
            names = [
                _in_time(name) if is_slow and told.isdisjoint(ALSO_ON_CLUSTER) else name for name in names
            ]
        elif metafunc.definition.get_closest_marker("on_servers") is not None:
            names = chosen(besides=LOCAL)
        metafunc.parametrize("backend_name", names, indirect=True, scope="function")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make long` what a mark says of servers: with other values the script is in each run."""
    for item in items:
        mark = item.get_closest_marker("long_on_servers")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        parameter, *values = mark.args
        given = item.callspec.params
        if given["backend_name"] in SERVED and given[parameter] in values:
            item.add_marker(pytest.mark.long)


def _in_time(name: str) -> Any:
    """Leave to `make long` what takes long on a Cluster: its scripts are those of one Redis."""
    return pytest.param(name, marks=pytest.mark.long) if name == "redis-cluster" else name


@pytest.fixture
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backend that the test shows promises on."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _signals_are_heard() -> Iterator[None]:
    """Let the processes hear what nohup(1), or a shell that runs the tests in its background, has ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def place_of_no_server(tmp_path: Path, backend_name: str) -> Iterator[Place]:
    """A place whose store is on a server of the test's own: the test says which."""
    place = Place(tmp_path, backend_name, is_served=False)
    yield place
    place.close()
    for process in place.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")


@pytest.fixture
def place(tmp_path: Path, backend_name: str) -> Iterator[Place]:
    """A folder, a store and a ledger; whatever process a test leaves is ended, and its output shown."""
    place = Place(tmp_path, backend_name)
    yield place
    place.close()
    for process in place.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")
