"""Maintenance is tested on memory and on SQLite."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["memory", "sqlite"])
def backend_name(request: pytest.FixtureRequest) -> str:
    """Which backend the test runs on."""
    return str(request.param)
