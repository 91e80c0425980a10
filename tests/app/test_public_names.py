"""What `import leasemq` gives, loads and costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import leasemq

TIMED = "import time; t = time.perf_counter(); import leasemq; print((time.perf_counter() - t) * 1000)"


def loaded_after(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a program."""
    program = f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


def test_every_public_name_is_what_it_says() -> None:
    for name in leasemq.__all__:
        assert getattr(leasemq, name).__name__ == name
    assert set(leasemq.__all__) <= set(dir(leasemq))
    with pytest.raises(AttributeError, match="Broker"):
        _ = leasemq.Broker  # type: ignore[attr-defined]  # that there is none is the point


def test_a_star_import_brings_the_public_names_and_nothing_else() -> None:
    names: dict[str, object] = {}
    exec("from leasemq import *", names)  # noqa: S102  a star import is refused inside a function
    assert set(names) - {"__builtins__"} == set(leasemq.__all__)


def test_a_driver_is_loaded_only_for_a_url_that_needs_it() -> None:
    use = "import asyncio\nfrom leasemq import App\nasyncio.run(App({url!r}).prepare())"
    in_memory = loaded_after(use.format(url="memory://"))
    assert in_memory & {"sqlite3", "leasemq.backends.sqlite", "click"} == set()
    assert "leasemq.backends.memory" in in_memory


@pytest.mark.alone
def test_importing_takes_less_than_a_tenth_of_a_second() -> None:
    took_ms = [
        float(
            subprocess.run([sys.executable, "-c", TIMED], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(5)
    ]
    assert min(took_ms) < 100, took_ms
