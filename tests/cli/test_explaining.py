"""`leasemq why` and `leasemq metrics`, on a SQLite store that another part of the program filled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leasemq import App, Unique
from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.decide import Reason
from tests.app.holder import Holder
from tests.cli.conftest import Command

AT = "--app=myapp:app"
KINDS = {
    "later": ["not_due", "no_worker"],
    "running": ["leased"],
    "broken": ["failed"],
    "done": ["completed", "writes_refused"],
    "waits": ["no_worker"],
}


@pytest.fixture
def filled(app: App) -> App:
    """Jobs that stand in different ways."""
    holder, send = Holder(app), app.tasks["send"]

    async def fill() -> None:
        for id_ in ("done", "broken", "running"):
            await send.options(id=id_).enqueue("ada")
        done, broken, _ = await holder.claim("mail", limit=3)
        await holder.returns(done, send, "sent to ada")
        await holder.gives_up(broken, ValueError("no such \x1b[31maddress"), Reason.DEAD)
        await holder.gives_up(done, ValueError("late"), Reason.DEAD)
        await send.options(id="later", delay=3_600).enqueue("bob")
        await send.options(id="waits").enqueue("eve")
        await app.tasks["add"].options(id="same").enqueue(1, 2)
        await send.options(id="same").enqueue("eve")
        await send.options(id="a/b").enqueue("eve")

    app.call_sync(fill)
    app.close_sync()
    return app


def explained(answer: str) -> list[dict[str, Any]]:
    plain = json.loads(answer)
    assert set(plain) == {"queue", "id", "reasons"}
    return list(plain["reasons"])


@pytest.mark.promise("P-116")
@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("id_", KINDS)
def test_why_answers_in_json_with_the_true_reason_first(leasemq: Command, id_: str) -> None:
    answer = leasemq("why", f"mail/{id_}", "--json", AT)

    assert (answer.code, answer.err) == (0, "")
    reasons = explained(answer.out)
    assert [one["kind"] for one in reasons] == KINDS[id_]
    assert all(set(one) == {"kind", "says", "remedy", "is_about_reruns", "values"} for one in reasons)


@pytest.mark.promise("P-116", "P-42")
@pytest.mark.usefixtures("filled")
def test_why_prints_each_reason_with_what_to_do(leasemq: Command) -> None:
    answer = leasemq("why", "later", AT)

    lines = answer.out.splitlines()
    assert lines[:2] == ["mail/later", "1. not_due"]
    assert lines[2].startswith("  It is not due before 20")
    assert lines[3] == "  -> leasemq promote mail/later, to start it now"
    assert lines[4] == "2. no_worker"
    assert "\x1b" not in leasemq("why", "broken", AT).out


@pytest.mark.promise("P-116")
@pytest.mark.usefixtures("filled")
def test_an_unknown_id_is_told_with_what_was_looked_for_and_where_else_it_is(leasemq: Command) -> None:
    nowhere = leasemq("why", "nobody", AT)
    elsewhere = leasemq("why", "waits", "--queue", "default", "--json", AT)

    assert (nowhere.code, nowhere.out) == (1, "")
    assert "no job nobody; looked in 2 queues" in nowhere.err
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert "no job waits in queue default" in elsewhere.err
    assert "queue mail has a job of this id" in elsewhere.err
    for mistyped in ("default/waits", "mial/waits"):
        for command in ("why", "job", "watch", "cancel"):
            told = leasemq(command, mistyped, AT)
            assert (told.code, told.out) == (1, ""), command
            assert told.err.endswith("; there is mail/waits\n"), (command, told.err)
    assert leasemq("job", "waits", "--queue", "default", AT).err.endswith("; there is mail/waits\n")


@pytest.mark.promise("P-116")
def test_a_search_in_all_queues_looks_into_each_once(
    app: App, leasemq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        app.tasks["send"].options(queue=f"q{number}", id=f"in {number}").enqueue_sync("ada")
    app.close_sync()
    looked: list[str] = []
    true = SqliteBackend.standing

    async def counted(backend: SqliteBackend, queue: str, id_: str) -> Any:
        looked.append(queue)
        return await true(backend, queue, id_)

    monkeypatch.setattr(SqliteBackend, "standing", counted)

    assert leasemq("why", "in 7", AT).code == 0
    assert sorted(looked) == sorted(f"q{number}" for number in range(12))


@pytest.mark.promise("P-116")
@pytest.mark.usefixtures("filled")
def test_an_id_in_two_queues_must_be_named_with_its_queue(leasemq: Command) -> None:
    both = leasemq("why", "same", AT)

    assert (both.code, both.out) == (2, "")
    assert "say --queue" in both.err
    assert leasemq("why", "default/same", AT).code == 0
    assert leasemq("why", "same", "--queue", "mail", AT).code == 0
    assert explained(leasemq("why", "a/b", "--json", AT).out)


@pytest.mark.promise("P-116", "P-41")
def test_an_id_that_was_merged_into_another_job_is_found(app: App, leasemq: Command) -> None:
    send = app.tasks["send"]
    for id_ in ("holder", "merged"):
        send.options(id=id_, unique=Unique(key="k", mode="replace")).enqueue_sync("ada")
    app.close_sync()

    answer = leasemq("why", "merged", "--json", AT)

    assert [one["kind"] for one in explained(answer.out)] == ["merged", "no_worker"]


@pytest.mark.promise("P-115", "P-43", "E-67")
@pytest.mark.usefixtures("filled")
def test_metrics_answer_in_json_what_the_queues_count(leasemq: Command) -> None:
    answer = leasemq("metrics", "--json", AT)

    plain = json.loads(answer.out)
    assert (answer.code, set(plain)) == (0, {"at", "queues", "workers"})
    default, mail = plain["queues"]
    assert (default["queue"], default["waiting"], default["dead_letters"]) == ("default", 1, 0)
    told = {
        name: mail[name] for name in ("accepted", "dead_letters", "refused", "stalls", "releases", "workers")
    }
    assert told == {"accepted": 7, "dead_letters": 1, "refused": 1, "stalls": 0, "releases": 0, "workers": 0}
    states = ("scheduled", "waiting", "active", "blocked", "completed", "failed", "cancelled", "expired")
    assert mail["accepted"] == sum(mail[state] for state in states) + mail["removed"]
    assert mail["oldest_waiting_s"] >= 0


@pytest.mark.promise("P-115")
@pytest.mark.usefixtures("filled")
def test_doctor_names_the_queues_that_nobody_works_on_and_how_long_the_oldest_job_waits(
    app: App, leasemq: Command
) -> None:
    app.call_sync(app.queue("nothing in it").pause)
    app.close_sync()

    found = json.loads(leasemq("doctor", "--json", AT).out)

    assert (found["without_worker"], found["paused"]) == (["default", "mail"], ["nothing in it"])
    assert found["oldest_waiting_s"] >= 0


@pytest.mark.promise("P-115", "E-67")
@pytest.mark.usefixtures("filled")
def test_metrics_are_a_table_for_people_and_a_text_for_prometheus(leasemq: Command) -> None:
    table = leasemq("metrics", AT)
    text = leasemq("metrics", "--prometheus", AT)

    headings = table.out.splitlines()[0].split("\t")
    assert headings[:7] == ["queue", "sched", "wait", "active", "block", "dead", "oldest_s"]
    assert 'leasemq_refused_writes_total{queue="mail"} 1\n' in text.out
    assert 'leasemq_jobs{queue="mail",state="failed"} 1\n' in text.out
    assert leasemq("metrics", "--prometheus", "--json", AT).code == 2
