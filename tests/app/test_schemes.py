"""URLs: which backend they name, and one clear line for those that name none."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasemq import App
from leasemq.client.schemes import Scheme, checked_scheme, in_namespace, open_backend
from leasemq.errors import (
    DurabilityTooLow,
    InvalidName,
    InvalidSetting,
    MissingExtra,
    UnknownScheme,
    Unsupported,
)

LATER = ["mongodb://host/db", "amqp://host?ledger=sqlite:///x.db"]


def test_an_unknown_scheme_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(UnknownScheme, match=r"kafka://.*memory.*sqlite") as refused:
        open_backend("kafka://user:hunter2@host")
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_path_in_place_of_a_url_is_answered_with_the_url() -> None:
    for path in ("jobs.db", "sqlite:jobs.db"):
        with pytest.raises(UnknownScheme, match=r"say sqlite:///jobs\.db"):
            open_backend(path)


@pytest.mark.promise("P-90")
@pytest.mark.parametrize("later", LATER)
def test_a_backend_of_a_later_release_is_refused_honestly(later: str) -> None:
    with pytest.raises(Unsupported, match=r"later release.*memory://, sqlite://.*postgresql://") as refused:
        open_backend(later)
    assert not isinstance(refused.value, UnknownScheme | MissingExtra)


def test_a_driver_that_is_not_installed_is_answered_with_the_extra_that_brings_it() -> None:
    schemes = {"ghost": Scheme(name="ghost", open=open_backend, driver="ghost_driver", extra="ghost")}
    with pytest.raises(MissingExtra, match=r"ghost_driver.*pip install 'leasemq\[ghost\]'"):
        open_backend("ghost://host", schemes)


def test_a_driver_that_is_installed_is_no_obstacle() -> None:
    schemes = {"real": Scheme(name="real", open=open_backend, driver="json", extra="real")}
    assert checked_scheme("real://host", schemes) is schemes["real"]


def test_a_parameter_that_memory_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="sync"):
        open_backend("memory://?sync=full")


def test_opening_touches_no_file(tmp_path: Path) -> None:
    open_backend(f"sqlite:///{tmp_path}/jobs.db")
    App(f"sqlite:///{tmp_path}/jobs.db")
    assert list(tmp_path.iterdir()) == []


def test_a_namespace_becomes_a_parameter_of_the_url() -> None:
    assert in_namespace("sqlite:///x.db", "my app") == "sqlite:///x.db?namespace=my%20app"
    assert in_namespace("sqlite:///x.db?sync=full", "a") == "sqlite:///x.db?sync=full&namespace=a"
    assert in_namespace("memory://?namespace=a", "a") == "memory://?namespace=a"


def test_two_different_namespaces_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="names another"):
        in_namespace("memory://?namespace=a", "b")
    with pytest.raises(InvalidName):
        in_namespace("memory://", "a\nb")


@pytest.mark.promise("P-07")
async def test_a_backend_below_the_durability_that_is_required_is_refused_at_the_start() -> None:
    app = App("memory://", require_durability="D2")
    with pytest.raises(DurabilityTooLow, match=r"memory.*D0.*D2"):
        await app.prepare()


@pytest.mark.promise("P-07")
async def test_the_durability_that_a_backend_reaches_is_enough(url: str, backend_name: str) -> None:
    reached = {"sqlite": "D2", "postgres": "D1"}.get(backend_name, "D0")  # the tests' servers sync nothing
    app = App(url, require_durability=reached)
    async with app:
        assert (await app.prepare()).durability == reached


@pytest.mark.promise("P-07")
async def test_sqlite_without_full_sync_is_below_d2(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db?sync=normal", require_durability="D2")
    with pytest.raises(DurabilityTooLow, match="D1"):
        await app.prepare()


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="null character"):
        open_backend("sqlite:///jobs%00.db")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_names_of_postgresql_are_known(scheme: str) -> None:
    assert type(open_backend(f"{scheme}://ada@db.example/jobs")).__name__ == "PostgresBackend"
