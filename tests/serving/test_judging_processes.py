"""The supervisor ends a process that says it is not live, and lets one be that says it is."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leasemq.serving.reports import Post, decode_view, encode_view
from leasemq.serving.view import View
from tests.end_to_end.waiting import until

SUPERVISE = """
import logging, sys
from leasemq.serving.supervisor import Supervisor

CHILD = '''
import os, signal, sys
os.write(int(sys.argv[1].split(":")[0]), sys.argv[2].encode())
signal.pause()
'''
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")

def command(name, post):
    return [sys.executable, "-c", CHILD, post.to_text(), sys.argv[1 if name == "dead" else 2]]

sys.exit(Supervisor(["dead", "alive"], command, roll=lambda: 0.5).run())
"""


@pytest.mark.slow
@pytest.mark.promise("P-82", "P-84")
def test_a_process_that_is_not_live_is_killed_and_replaced_and_its_neighbour_is_not(tmp_path: Path) -> None:
    reports = [encode_view(View(startup=True, ready=True, live=live)).decode() for live in (False, True)]
    log = tmp_path / "log"
    with (
        log.open("w") as out,
        subprocess.Popen([sys.executable, "-c", SUPERVISE, *reports], stderr=out) as supervisor,
    ):
        try:
            until(lambda: log.read_text().count("ProcessStarted worker=dead") >= 2, "it is replaced")
        finally:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait(30)
    told = log.read_text()
    assert "ProcessEnded worker=dead" in told
    assert "exit_code=-9 restart_in_ms=" in told
    assert told.count("ProcessStarted worker=alive") == 1


def test_a_report_comes_through_as_it_was_and_a_long_one_without_its_facts() -> None:
    view = View(startup=True, ready=False, live=True, is_stopping=True, facts={"running": 3})
    assert decode_view(encode_view(view)) == view
    long = View(startup=True, ready=True, live=True, facts={"x": "y" * 5_000})
    assert decode_view(encode_view(long)) == View(startup=True, ready=True, live=True)
    assert decode_view(b"nonsense") is decode_view(b'{"no": 1}') is None


def test_a_post_is_told_as_the_argument_of_a_command() -> None:
    post = Post(fd=7, supervisor_pid=42)
    assert Post.from_text(post.to_text()) == post
