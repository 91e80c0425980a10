"""The pytest plugin `leasemq`: the fixture `leasemq_jobs`, a harness over the app of the suite's own.

A suite defines `leasemq_app`, and `leasemq_options` if the harness is to have any. A suite that asks for
none of them notices nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from leasemq.app import App
    from leasemq.testing.harness import Harness


@pytest.fixture
def leasemq_app() -> App:
    """The app under test; each suite defines its own."""
    pytest.fail(
        "leasemq_jobs needs a fixture leasemq_app that answers your App: "
        "@pytest.fixture def leasemq_app(): return app",
        pytrace=False,
    )


@pytest.fixture
def leasemq_options() -> Mapping[str, Any]:
    """Options of `Harness` beside the app, such as {"inline": True}."""
    return {}


@pytest.fixture
def leasemq_jobs(leasemq_app: App, leasemq_options: Mapping[str, Any]) -> Iterator[Harness]:
    """A harness over `leasemq_app`, open for the test: `await leasemq_jobs.run_until_idle()`, or `_sync`."""
    from leasemq.testing.harness import Harness

    with Harness(leasemq_app, **leasemq_options) as jobs:
        yield jobs
