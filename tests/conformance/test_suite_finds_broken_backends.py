"""A backend that declares a capability, or takes the contract, and does not keep it fails the suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conformance.broken_backends import BROKEN

ROOT = Path(__file__).parents[2]
SOUND = "MemoryBackend"
FOUND_BY = {
    "LosesExchangedSettlements": "test_an_exchange_settles_first_and_then_claims",
    "AcceptsStaleSettlements": "test_the_nonce_tells_lives_of_one_id_apart_where_the_numbers_are_equal",
    "RenewsForAnybody": "test_renewals_of_a_batch_are_answered_in_order",
    "ForgetsFollowUps": "test_a_dependant_is_released_when_its_parent_completes",
    "MiscountsWaiting": "test_a_stored_job_reads_back_as_it_was_given",  # by the books read after every test
    "DoublesRepeatedEnqueues": "test_an_enqueue_repeated_after_a_lost_reply_leaves_one_job",
    "ClaimsProcesses": "test_a_store_that_processes_share_is_one_store_on_every_view",
    "NeverPushes": "test_resuming_a_queue_wakes_whoever_waits_for_it",
}
MODULE = """
import pytest
from leasemq.backends.memory import MemoryBackend
from leasemq.testing.conformance import *
from tests.conformance.broken_backends import BROKEN

@pytest.fixture(params=["MemoryBackend", *BROKEN])
def open_backend(request, clock):
    backend = BROKEN.get(request.param, MemoryBackend)(clock=clock)
    return lambda: backend
"""
SETTINGS = "[pytest]\nasyncio_mode = auto\nmarkers = promise(*ids): what the test shows\n"


def _failures(folder: Path) -> dict[str, set[str]]:
    """Which of the chosen tests failed on each backend, in a run of its own as a third party makes it."""
    (folder / "test_mine.py").write_text(MODULE)
    (folder / "pytest.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=told.xml"]
    done = subprocess.run(
        [*command, "-k", " or ".join(FOUND_BY.values())],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed: dict[str, set[str]] = {name: set() for name in (SOUND, *BROKEN)}
    for case in ElementTree.parse(folder / "told.xml").iter("testcase"):  # noqa: S314  made by our own run
        test, _, parameters = case.attrib["name"].partition("[")
        if case.find("failure") is not None or case.find("error") is not None:
            failed[parameters.rstrip("]").partition("-")[0]].add(test)
    return failed


@pytest.mark.slow
@pytest.mark.promise("P-90")
def test_the_suite_fails_on_every_backend_that_does_not_keep_what_it_declares(tmp_path: Path) -> None:
    failed = _failures(tmp_path)

    unseen = {name: test for name, test in FOUND_BY.items() if test not in failed[name]}
    assert not unseen, f"broken backends that pass: {unseen}"
    assert failed[SOUND] == set()
    assert set(FOUND_BY) == set(BROKEN)
