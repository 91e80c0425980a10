"""How often a worker's process looks for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from leasemq.serving.collecting import DEFAULT_THRESHOLD, rare_collections


@pytest.fixture(autouse=True)
def default_collector() -> Iterator[None]:
    """CPython's own settings, before and after."""
    before = gc.get_threshold()
    gc.set_threshold(*DEFAULT_THRESHOLD)
    yield
    gc.set_threshold(*before)


def test_a_worker_leaves_alone_what_was_imported_and_gives_the_collector_back() -> None:
    with rare_collections():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] > DEFAULT_THRESHOLD[0]
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == DEFAULT_THRESHOLD


def test_what_an_app_has_chosen_itself_stands() -> None:
    gc.set_threshold(123, 4, 5)
    with rare_collections():
        assert gc.get_threshold() == (123, 4, 5)
        assert gc.get_freeze_count() == 0
