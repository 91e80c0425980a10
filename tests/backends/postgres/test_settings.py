"""What a URL says, what it may not say, and what is never shown of it."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from leasemq.backends.postgres.server import judged
from leasemq.backends.postgres.settings import Settings, channel_of, located, quoted, session_options
from leasemq.errors import InvalidName, InvalidSetting
from leasemq.protocol.insight import Durability

URL = "postgresql://ada:hush-hush@db.example:5433/work"


@pytest.mark.promise("P-94")
def test_a_url_says_where_the_store_is_and_libpq_gets_the_rest() -> None:
    location = located(f"{URL}?schema=jobs&notify=off&sslmode=require&connect_timeout=2")
    given = conninfo_to_dict(location.conninfo)

    assert (location.schema, location.notify) == ("jobs", False)
    assert (given["host"], given["port"], given["dbname"], given["user"]) == (
        "db.example",
        "5433",
        "work",
        "ada",
    )
    assert (given["sslmode"], given["connect_timeout"], given["password"]) == ("require", "2", "hush-hush")
    assert given["application_name"] == "leasemq"
    assert "schema" not in given


@pytest.mark.promise("P-94")
@pytest.mark.parametrize(
    ("query", "schema"),
    [
        ("", "leasemq"),
        ("?namespace=shop", "shop"),
        ("?namespace=shop&schema=jobs", "jobs"),
        ("?schema=a%22b", 'a"b'),
        ("?schema=" + "s" * 63, "s" * 63),
    ],
)
def test_a_namespace_is_a_schema(query: str, schema: str) -> None:
    assert located(URL + query).schema == schema


@pytest.mark.promise("P-94", "P-102")
@pytest.mark.parametrize(
    ("url", "word"),
    [
        (f"{URL}?notify=maybe", "notify is 'maybe'"),
        (f"{URL}?schema=a&schema=b", "twice"),
        (f"{URL}?colour=red", "colour"),
        (f"{URL}?schema=" + "s" * 64, "at most 63"),
        (f"{URL}?schema=" + "ä" * 32, "64 bytes"),
        (f"{URL}?schema=pg_jobs", "server's own"),
        (f"{URL}?schema=information_schema", "server's own"),
        (f"{URL}?connect_timeout=soon", "connect_timeout is 'soon'"),
        (f"{URL}?sslmode=bogus", "sslmode is 'bogus'; use one of disable, "),
        (f"{URL}?target_session_attrs=master", "target_session_attrs is 'master'"),
        (URL.replace("5433", "99999"), "the port is '99999'"),
        (URL.replace("5433", "abc"), "the port is 'abc'"),
        ("postgresql://ada:hush-hush@a:5432,b:0/work", "the port is '0'"),
        ("postgresql://ada:hush-hush%@db.example/work", "cannot be read"),
        (f"{URL}#part", "not of the form"),
        ("postgresql://ada:hush-hush@[::1/work", ""),
        ("postgresql://ada:hu/hush@db.example/work", "a / ? or @ that is not escaped"),
        ("postgresql://ada:5/hush@db.example/work?schema=jobs", "a / ? or @ that is not escaped"),
        ("postgresql://ada:hu?hush@db.example/work", "a / ? or @ that is not escaped"),
        ("postgresql://ada:hu@hush@db.example/work", "a / ? or @ that is not escaped"),
        ("postgresql://ada:hu#hush@db.example/work", "not of the form"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_password(url: str, word: str) -> None:
    with pytest.raises((InvalidSetting, InvalidName)) as caught:
        located(url)
    assert word in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.promise("P-102")
def test_what_is_shown_of_a_server_has_no_password() -> None:
    location = located(URL)

    assert location.place == "PostgreSQL at db.example:5433/work"
    assert "hush" not in repr(
        Settings(conninfo=location.conninfo, place=location.place, schema="leasemq", notify=True)
    )
    assert "hush" not in repr(location)


def test_a_channel_is_short_enough_and_a_schemas_own() -> None:
    names = ["leasemq", "s" * 63, 'a"b', "ä"]

    assert {len(channel_of(name)) for name in names} == {40}
    assert len({channel_of(name) for name in names}) == len(names)
    assert quoted('a"b') == '"a""b"'


@pytest.mark.promise("P-94")
def test_what_the_url_sets_for_its_sessions_wins() -> None:
    settings = Settings(conninfo="", place="", schema="leasemq")

    options = session_options(settings, "-c lock_timeout=5s", synchronous_commit=True)
    assert options.index("lock_timeout=2000") < options.index("lock_timeout=5s")
    assert "synchronous_commit" not in options


@pytest.mark.promise("P-07")
@pytest.mark.parametrize(
    ("changed", "durability"),
    [
        ({}, Durability.D2),
        ({"synchronous_commit": "local"}, Durability.D2),
        ({"synchronous_commit": "off"}, Durability.D0),
        ({"fsync": "off"}, Durability.D1),
        ({"full_page_writes": "off"}, Durability.D1),
        ({"synchronous_standby_names": "ANY 1 (a, b)"}, Durability.D3),
        ({"synchronous_standby_names": "a", "synchronous_commit": "local"}, Durability.D2),
        ({"synchronous_standby_names": "a", "fsync": "off"}, Durability.D1),
    ],
)
def test_the_servers_settings_say_what_a_commit_survives(
    changed: dict[str, str], durability: Durability
) -> None:
    usual = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "synchronous_standby_names": "",
    }
    found, warnings = judged({**usual, **changed})

    assert found is durability
    assert bool(warnings) is (durability < Durability.D2)
