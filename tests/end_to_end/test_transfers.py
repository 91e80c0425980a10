"""Money moves between accounts in the jobs' own transactions, while workers are killed at each statement."""

from __future__ import annotations

import itertools
import random
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from leasemq import State
from tests.end_to_end.apps.transfers import GO_ON, STEPS, app_on, table
from tests.end_to_end.place import QUEUE, Place, Process
from tests.end_to_end.waiting import until
from tests.servers.proxy import Proxy

ACCOUNTS = tuple(f"account-{number}" for number in range(8))
OPENING = 1_000
TRANSFERS = 160
MANY_TRANSFERS = 2_000

pytestmark = [pytest.mark.promise("P-114"), pytest.mark.by_url]


class Bank:
    """The accounts, and what every transfer wrote. Owned by the test."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._url = place.url
        self._app = app_on(place.url)
        self.mark = "?" if place.backend_name == "sqlite" else "%s"
        self.account, self.entry = table(place.url, "account"), table(place.url, "entry")
        self.expected = dict.fromkeys(ACCOUNTS, OPENING)
        place.counts()  # makes the store
        with self._connected() as connection:
            connection.execute(f"create table {self.account} (name text primary key, balance integer)")
            connection.execute(f"create table {self.entry} (job text, attempt integer)")
            for name in ACCOUNTS:
                connection.execute(
                    f"insert into {self.account} values ({self.mark}, {self.mark})",  # noqa: S608  own names
                    (name, OPENING),
                )
            connection.commit()

    def _connected(self) -> Any:
        if self._place.backend_name == "sqlite":
            return closing(sqlite3.connect(self._place.file))
        import psycopg

        from leasemq.backends.postgres.settings import located

        return closing(psycopg.connect(located(self._url).conninfo))

    def order(self, count: int, *, seed: int = 1) -> list[str]:
        """Enqueue transfers, half of them for functions in threads; answers their ids."""
        dice = random.Random(seed)
        ids: list[str] = []
        for task in ("transfer", "transfer_in_a_thread"):
            calls: list[tuple[str, str, int]] = []
            for _ in range(count // 2):
                source, target = dice.sample(ACCOUNTS, 2)
                calls.append((source, target, amount := dice.randrange(1, 50)))
                self.expected[source] -= amount
                self.expected[target] += amount
            ids += [job.id for job in self._app.tasks[task].enqueue_many_sync(calls)]
        return ids

    def balances(self) -> dict[str, int]:
        """What is committed, in one look."""
        with self._connected() as connection:
            return dict(connection.execute(f"select name, balance from {self.account}").fetchall())  # noqa: S608  own names

    def entries(self) -> list[str]:
        """The transfers that were applied."""
        with self._connected() as connection:
            return [row[0] for row in connection.execute(f"select job from {self.entry}").fetchall()]  # noqa: S608  own names

    def wait_for_completed(self, count: int) -> None:
        """Wait until so many jobs are completed, past any proxy."""
        queue = self._app.queue(QUEUE)
        until(lambda: self._app.call_sync(queue.counts).completed == count, f"{count} jobs are completed")

    def close(self) -> None:
        """Let go of the app."""
        self._app.close_sync()


@pytest.fixture
def bank(place: Place) -> Any:
    if place.backend_name not in ("sqlite", "postgres"):
        pytest.skip("left out: the backend does not declare transactions")
    place.hurry()
    bank = Bank(place)
    yield bank
    bank.close()


def proxied(place: Place) -> Iterator[Proxy]:
    """Have workers reach the server through a proxy."""
    direct = urlsplit(place.url)
    assert direct.port is not None
    proxy = Proxy(direct.port)
    netloc = direct.netloc.replace(f":{direct.port}", f":{proxy.port}")
    place.use(urlunsplit(direct._replace(netloc=netloc)))
    yield proxy
    proxy.heal()
    place.use(urlunsplit(direct))
    proxy.close()


def worker(place: Place, *arguments: str) -> Process:
    """Start a worker of the transfers."""
    module = "tests.end_to_end.apps.transfers"
    return place.run("transfers", sys.executable, "-m", module, *arguments)


def survive(place: Place, bank: Bank, count: int, nths: range) -> None:
    """Order transfers, kill a worker at each step of several transfers, and let the last one finish."""
    ids = bank.order(count)
    killed = 0
    for nth, step in itertools.product(nths, STEPS):
        if place.counts().completed + 40 > count:
            break
        struck = worker(place, step, str(nth))
        place.wait_for(lambda one=struck: not one.is_alive, f"the worker is dead: {step} {nth}")  # type: ignore[misc]  # a default binds the loop's own
        assert sum(bank.balances().values()) == OPENING * len(ACCOUNTS)
        killed += 1
    last = worker(place)
    place.wait_for_completed(count, within_s=300)
    last.signal(signal.SIGTERM)
    assert last.exit_code() == 0

    counts = place.counts()
    assert killed >= len(STEPS)
    assert bank.balances() == bank.expected
    assert sorted(bank.entries()) == sorted(ids)
    assert (counts.accepted, counts.completed, counts.failed, counts.active) == (count, count, 0, 0)


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-02", "P-03", "P-11")
def test_transfers_are_applied_one_time_each_wherever_a_worker_is_killed(place: Place, bank: Bank) -> None:
    survive(place, bank, TRANSFERS, range(2, 3))


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_two_thousand_transfers_are_applied_one_time_each_wherever_workers_are_killed(
    place: Place, bank: Bank
) -> None:
    survive(place, bank, MANY_TRANSFERS, range(1, 20, 4))


@pytest.mark.slow
@pytest.mark.promise("P-03", "P-04", "P-19")
def test_transfers_whose_replies_are_dropped_are_applied_one_time_each(place: Place, bank: Bank) -> None:
    """Of every 23rd reply nobody hears: to a COMMIT, to a statement within, to a claim."""
    if place.backend_name != "postgres":
        pytest.skip("left out: a file has no wire")
    ids = bank.order(40)
    with contextmanager(proxied)(place) as proxy:
        proxy.drop_every(23)
        busy = worker(place)
        place.wait_for(lambda: len(bank.entries()) == 40, "all are applied", 120)
        proxy.heal()
        bank.wait_for_completed(40)
        busy.signal(signal.SIGTERM)
        assert busy.exit_code() == 0
        assert proxy.dropped > 10

    assert bank.balances() == bank.expected
    assert sorted(bank.entries()) == sorted(ids)


@pytest.mark.slow
@pytest.mark.promise("P-10", "P-11", "P-16")
@pytest.mark.parametrize("step", ["entered", "checked", "noted", "settled"])
def test_a_worker_frozen_past_its_lease_in_a_transfer_applies_nothing_twice(
    place: Place, bank: Bank, step: str
) -> None:
    """On SQLite its lock keeps everybody out until it is thawed, and then its own commit may be the one."""
    ids = bank.order(2)
    frozen = worker(place, step, "1", "hold")
    until((place.folder / "held").exists, "the worker stands in its transfer")
    frozen.signal(signal.SIGSTOP)
    until(frozen.is_stopped, "the worker is frozen")
    (place.folder / GO_ON).touch()
    is_free = place.backend_name == "postgres" or step == "entered"
    other = worker(place)
    if is_free:
        place.wait_for_completed(2)
    frozen.thaw()
    place.wait_for_completed(2)
    for one in (frozen, other):
        one.signal(signal.SIGTERM)
        one.exit_code()

    assert bank.balances() == bank.expected
    assert sorted(bank.entries()) == sorted(ids)
    for id_ in ids:
        record = place.app.call_sync(place.app.job(QUEUE, id_).record)
        assert record.state is State.COMPLETED
