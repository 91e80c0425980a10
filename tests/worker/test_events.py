"""What the worker tells, and how it is logged when nobody listens."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import get_args

import pytest

from leasemq.events import (
    BackendLost,
    Event,
    Herald,
    JobEnded,
    JobStarted,
    LeaseWasLost,
    WorkerStarted,
    line_of,
)
from leasemq.logs import herald_for, level_of, log_event
from leasemq.protocol.model import Outcome, Ref

REF = Ref(queue="q", id="a\nb\x1b[31m", generation=2)
STARTED = JobStarted(ref=REF, task="t", attempt=1, fence=7)


def ended(outcome: Outcome) -> JobEnded:
    """An attempt's end."""
    return JobEnded(ref=REF, task="t", attempt=1, fence=7, outcome=outcome)


@pytest.mark.promise("P-42")
def test_an_event_is_one_printable_line_whatever_the_ids() -> None:
    line = line_of(STARTED)
    assert line.isprintable()
    assert line.startswith("JobStarted ref=q/a")
    assert "fence=7" in line


@pytest.mark.promise("A-43")
def test_every_event_about_a_job_says_which_attempt_of_it() -> None:
    about_jobs = [event for event in get_args(Event) if "ref" in event.__slots__]
    assert len(about_jobs) >= 7
    for event in about_jobs:
        assert {"ref", "task", "attempt", "fence"} <= {field.name for field in fields(event)}, event


def test_only_what_matters_is_loud() -> None:
    assert level_of(STARTED) == level_of(ended(Outcome.COMPLETED)) == logging.DEBUG
    assert level_of(ended(Outcome.RETRIED)) == logging.WARNING
    assert level_of(ended(Outcome.FAILED)) == level_of(BackendLost(error="x")) == logging.ERROR
    assert level_of(LeaseWasLost(ref=REF, task="t", attempt=1, fence=7, write="renew")) == logging.WARNING
    assert level_of(WorkerStarted(worker="w", incarnation="i", queues=("q",), slots=1)) == logging.INFO


def test_without_an_observer_events_go_to_the_librarys_own_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "leasemq"):
        assert not herald_for(None).tells_each_job
        log_event(STARTED)
        herald_for(None).tell(ended(Outcome.FAILED))
    assert [(record.name, record.levelname) for record in caplog.records] == [("leasemq", "ERROR")]
    assert "outcome=failed" in caplog.text
    with caplog.at_level(logging.DEBUG, "leasemq"):
        assert herald_for(None).tells_each_job


def test_an_observer_that_raises_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []

    def observer(event: Event) -> None:
        seen.append(event)
        raise ValueError("not my day")

    herald = Herald(observer)
    herald.tell(STARTED)
    herald.tell(ended(Outcome.FAILED))
    assert len(seen) == 2
    assert caplog.text.count("the observer of JobStarted raised") == 1
