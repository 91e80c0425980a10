"""Commands that change a job or a queue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leasemq import App
from tests.cli.conftest import Command

AT = "--app=myapp:app"


@pytest.fixture
def jobs(app: App) -> App:
    app.tasks["send"].options(id="waits").enqueue_sync("ada")
    app.tasks["send"].options(id="later", delay=3_600).enqueue_sync("bob")
    return app


@pytest.mark.promise("P-50", "A-45", "A-21")
def test_cancelling_says_what_it_found(jobs: App, leasemq: Command) -> None:
    answer = leasemq("cancel", "waits", "mail/later", AT)
    assert (answer.code, answer.out) == (0, "mail/waits: cancelled\nmail/later: cancelled\n")
    assert json.loads(leasemq("cancel", "waits", AT, "--json").out)["jobs"] == [
        {"queue": "mail", "id": "waits", "generation": 1, "answer": "finished"}
    ]


@pytest.mark.promise("A-45", "A-22")
def test_a_mistyped_name_among_several_changes_nothing(jobs: App, leasemq: Command) -> None:
    assert leasemq("cancel", "waits", "latter", AT).code == 1
    assert json.loads(leasemq("job", "waits", AT, "--json").out)["state"] == "waiting"


@pytest.mark.promise("P-53", "A-45")
def test_jobs_are_promoted_removed_and_replayed(jobs: App, leasemq: Command) -> None:
    assert leasemq("promote", "later", AT).out == "mail/later: promoted\n"
    answer = leasemq("promote", "later", AT)
    assert (answer.code, answer.err) == (
        1,
        "error: job later is waiting, so it cannot be promoted: only a scheduled job can be\n",
    )
    assert leasemq("cancel", "later", AT).code == 0
    assert leasemq("replay", "later", AT).out == "mail/later: replayed\n"
    assert leasemq("remove", "later", "--force", AT).out == "mail/later: removed\n"
    assert leasemq("job", "later", AT).code == 1


@pytest.mark.promise("P-52", "A-45", "A-20")
def test_a_queue_is_paused_resumed_and_drained(jobs: App, leasemq: Command) -> None:
    assert leasemq("pause", "mail", AT).out == "mail: paused\n"
    assert json.loads(leasemq("queues", AT, "--json").out)["queues"][0]["paused"] is True
    assert json.loads(leasemq("resume", "mail", AT, "--json").out) == {"queue": "mail", "answer": "resumed"}
    assert leasemq("drain", "mail", "--yes", AT).out == "mail: 2 removed\n"
    assert json.loads(leasemq("drain", "mail", "--yes", AT, "--json").out) == {"queue": "mail", "removed": 0}


def test_draining_asks_first(jobs: App, leasemq: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.confirm", refuse)
    assert leasemq("drain", "mail", AT).code == 130
    assert json.loads(leasemq("queues", AT, "--json").out)["queues"][0]["waiting"] == 1


def refuse(text: str, *, abort: bool, err: bool) -> None:
    import click

    assert "mail" in text
    raise click.Abort


@pytest.mark.promise("P-54", "A-45")
def test_an_option_before_the_word_replay_holds_for_it(
    jobs: App, leasemq: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leasemq("cancel", "waits", AT).code == 0
    monkeypatch.setenv("LEASEMQ_URL", f"sqlite:///{folder}/another.db")
    answer = leasemq("dead", "--url", "sqlite:///jobs.db", "--json", "replay", "waits")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["jobs"][0]["answer"] == "replayed"
    assert not (folder / "another.db").exists()
    assert leasemq("dead", "--task", "send", "replay", "waits").code == 2


@pytest.mark.promise("P-52", "A-20")
def test_a_queue_that_nobody_knows_is_paused_with_a_note_and_listed(jobs: App, leasemq: Command) -> None:
    answer = leasemq("pause", "mial", AT)
    assert (answer.code, answer.out) == (0, "mial: paused\n")
    assert answer.err == "note: no job was ever enqueued into mial; is its name right?\n"
    listed = {
        row["queue"]: row["paused"] for row in json.loads(leasemq("queues", AT, "--json").out)["queues"]
    }
    assert listed == {"mail": False, "mial": True}
