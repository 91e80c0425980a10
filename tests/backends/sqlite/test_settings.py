"""What a store is asked to be, in code and in a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend, from_url, path_of
from leasemq.backends.sqlite.settings import located
from leasemq.errors import InvalidName, InvalidSetting


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:///data/jobs.db", "data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///a%20b%3F.db?sync=full", "a b?.db"),
    ],
)
def test_a_url_names_a_file(url: str, path: str) -> None:
    assert path_of(url) == Path(path)


def test_a_url_may_choose_durability_namespace_and_patience() -> None:
    location = located("sqlite:///jobs.db?sync=normal&namespace=shop&busy_timeout_ms=250")

    assert (location.sync, location.namespace, location.busy_timeout_ms) == ("normal", "shop", 250)
    assert isinstance(from_url("sqlite:///jobs.db?sync=normal"), SqliteBackend)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite:///jobs.db?colour=red&sync=full&flavour=x", "colour, flavour"),
        ("sqlite:///jobs.db?sync=full&sync=normal", "given twice"),
        ("sqlite:///jobs.db?sync=off", "'off'"),
        ("sqlite:///jobs.db?busy_timeout_ms=soon", "'soon'"),
        ("sqlite:///jobs.db?busy_timeout_ms=0", "busy_timeout_ms is 0"),
        ("sqlite://host/jobs.db", "sqlite:///relative.db"),
        ("sqlite://", "sqlite:///relative.db"),
        ("sqlite:///", "sqlite:///relative.db"),
        ("sqlite:///:memory:", "memory://"),
        ("postgresql:///jobs", "sqlite:///relative.db"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_by_name(url: str, named: str) -> None:
    with pytest.raises(InvalidSetting, match=named.replace("?", r"\?")):
        from_url(url)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(InvalidSetting) as refusal:
        from_url("sqlite://user:hunter2@host/jobs.db")

    assert "hunter2" not in str(refusal.value)


@pytest.mark.promise("P-93")
def test_no_sync_at_all_is_for_tests_only(path: Path) -> None:
    with pytest.raises(InvalidSetting, match="inline=True"):
        SqliteBackend(path, sync="off")

    assert SqliteBackend(path, sync="off", inline=True)


def test_a_namespace_is_a_name(path: Path) -> None:
    with pytest.raises(InvalidName):
        SqliteBackend(path, namespace="a\nb")
