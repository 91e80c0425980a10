"""What a URL says about servers, and what is refused without a word of the password."""

from __future__ import annotations

import pytest

from leasemq.backends.redis.settings import Address, Credentials, Layout, Tls, located
from leasemq.errors import InvalidName, InvalidSetting

CANARY = "t0ps3cret"


def who(username: str | None, password: str) -> Credentials:
    """These credentials."""
    return Credentials(username=username, password=password)


GOOD: dict[str, dict[str, object]] = {
    "redis://h": {"addresses": (Address("h", 6379),), "db": 0, "namespace": "leasemq"},
    "valkey://h:1": {"addresses": (Address("h", 1),), "tls": None},
    "redis://h:1/3?namespace=a": {"db": 3, "namespace": "a", "layout": Layout.SINGLE},
    "redis://u:p%40%2F@h": {"credentials": who("u", "p@/")},
    "redis://:p@h": {"credentials": who(None, "p")},
    "redis://[::1]:7": {"addresses": (Address("::1", 7),)},
    "rediss://h": {"tls": Tls()},
    "rediss://h?ca_file=/ca.pem&tls_verify=off": {"tls": Tls(ca_file="/ca.pem", verify=False)},
    "redis+cluster://a:1,b:2?tls=on": {
        "addresses": (Address("a", 1), Address("b", 2)),
        "tls": Tls(),
        "layout": Layout.CLUSTER,
    },
    "redis+sentinel://u:p@a,b:2/main/4?sentinel_password=x": {
        "addresses": (Address("a", 26379), Address("b", 2)),
        "service": "main",
        "db": 4,
        "credentials": who("u", "p"),
        "sentinel_credentials": who(None, "x"),
        "layout": Layout.SENTINEL,
    },
    "redis://h?timeout_ms=1500&connect_timeout_ms=7": {"timeout_ms": 1500, "connect_timeout_ms": 7},
}
BAD = {
    "redis://": "names no host",
    "redis://h:x": "port or host",
    "redis://h:0": "names no host",
    "redis://h:70000": "port or host",
    "redis://[::1": "brackets",
    "redis://a,b": "names 2 hosts",
    "redis://h/x": "the database is 'x'",
    "redis://h/1/2": "path too long",
    "redis://h/-1": "the database",
    "redis://h#f": "not of the form",
    "redis://h?socket_timeout=1": "socket_timeout",
    "redis://h?timeout_ms=1&timeout_ms=2": "given twice",
    "redis://h?timeout_ms=0": "timeout_ms is '0'",
    "redis://h?timeout_ms=1e3": "whole number",
    "redis://h?tls=yes": "'on' or 'off'",
    "redis://h?ca_file=x": "TLS is off",
    "redis://h?tls_verify=off": "TLS is off",
    "rediss://h?tls=off": "use redis://",
    "rediss://h?key_file=k": "needs a cert_file",
    "redis+cluster://h/2": "a Cluster has only 0",
    "redis+sentinel://h": "does not name the primary",
    "redis://h?sentinel_username=a": "sentinel_username",
}


@pytest.mark.promise("P-95")
@pytest.mark.parametrize("url", GOOD)
def test_a_url_says_how_the_servers_are_reached(url: str) -> None:
    found = located(url)

    assert {name: getattr(found, name) for name in GOOD[url]} == GOOD[url]


@pytest.mark.promise("E-65", "P-90")
@pytest.mark.parametrize("url", BAD)
def test_what_a_url_cannot_say_is_refused_by_name(url: str) -> None:
    with pytest.raises(InvalidSetting, match=BAD[url]):
        located(url)


@pytest.mark.promise("P-102")
@pytest.mark.parametrize("bad", ["", ":x", "/x?y=1", "?tls=perhaps", "/1/2", "#", "/0?namespace=%00"])
@pytest.mark.parametrize("password", [CANARY, f"{CANARY}/", f"{CANARY}?{CANARY}", f"{CANARY}@{CANARY}"])
def test_no_refusal_shows_a_password(bad: str, password: str) -> None:
    host = "" if bad == "" else "h"
    try:
        located(f"redis://u:{password}@{host}{bad}")
    except (InvalidSetting, InvalidName) as error:
        told = f"{error} {error.__cause__}"
    else:
        told = ""

    assert CANARY not in told


@pytest.mark.promise("P-102")
def test_settings_show_no_password() -> None:
    found = located(f"redis+sentinel://u:{CANARY}@h/main?sentinel_password={CANARY}")

    assert CANARY not in repr(found)
    assert found.place == "h:26379/main"


@pytest.mark.promise("P-90")
def test_a_namespace_follows_the_rules_for_names() -> None:
    with pytest.raises(InvalidName):
        located("redis://h?namespace=")
