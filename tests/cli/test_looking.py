"""Commands that look, on a SQLite store that another part of the program filled."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from leasemq import App
from leasemq.protocol.decide import Reason
from leasemq.protocol.envelope import encode_plain
from leasemq.protocol.model import Note, NoteKind
from tests.app.holder import Holder
from tests.cli.conftest import Command
from tests.servers import PostgresServer, RedisServer

AT = "--app=myapp:app"


@pytest.fixture
def filled(app: App, folder: Path) -> App:
    """Jobs in every state that a list should tell apart, made with the folder's own app."""
    sys.path.insert(0, str(folder))
    from importlib import import_module

    own: App = import_module("myapp").app
    send = own.tasks["send"]
    holder = Holder(own)

    async def fill() -> None:
        async with own:
            await send.options(id="done").enqueue("ada", "hunter2")
            await send.options(id="broken").enqueue("nobody")
            done, broken = await holder.claim("mail", limit=2)
            await holder.returns(done, send, "sent to ada")
            await holder.gives_up(broken, ValueError("no such address"), Reason.DEAD)
            await send.options(id="later", delay=3_600).enqueue("bob")
            await send.options(id="waits").enqueue("eve")
            await own.tasks["add"].options(id="sum").enqueue(1, 2)
            (running,) = await holder.claim("default")
            stale = Note(job_id="sum", fence=running.fence, kind=NoteKind.PROGRESS, value=progress(1))
            backend = (await own._connections.here()).backend
            await backend.note("default", [stale])
            await holder.returns(running, own.tasks["add"], 3)
            await backend.note("default", [stale])

    import asyncio

    asyncio.run(fill())
    return own


def progress(current: int) -> bytes:
    return encode_plain({"current": current, "total": 3, "message": None}, what="progress")


@pytest.mark.promise("P-43", "A-45", "A-35")
def test_queues_are_listed_with_their_counts(filled: App, leasemq: Command) -> None:
    answer = leasemq("queues", AT, "--json")
    by_name = {row["queue"]: row for row in json.loads(answer.out)["queues"]}
    assert answer.code == 0
    mail = by_name["mail"]
    assert (mail["waiting"], mail["scheduled"], mail["completed"], mail["failed"]) == (1, 1, 1, 1)
    assert (mail["accepted"], mail["removed"], mail["paused"]) == (4, 0, False)
    assert by_name["default"]["completed"] == 1
    lines = leasemq("queues", AT).out.splitlines()
    headings = lines[0].split("\t")
    assert (headings[:3], headings[-1]) == (["queue", "sched", "wait"], "oldest_s")
    assert [line.split("\t")[0] for line in lines[1:]] == ["default", "mail"]


EACH_STATE = {"scheduled": 1, "waiting": 2, "active": 1, "blocked": 1, "completed": 1, "failed": 1,
              "cancelled": 1, "expired": 1}  # fmt: skip


async def _fill_each_state(app: App) -> None:
    """Two jobs wait, one is in each other state, and one was removed."""
    send, holder = app.tasks["send"], Holder(app)
    backend = (await app._connections.here()).backend
    await send.options(id="expired", ttl=0.001).enqueue("ada")
    while (await backend.counts("mail")).expired == 0:
        await backend.advance("mail", 10)
    for state in ("completed", "failed", "active", "cancelled", "removed", "waiting"):
        await send.options(id=state).enqueue("ada")
    completed, failed, active = await holder.claim("mail", limit=3)
    await holder.returns(completed, send, "sent to ada")
    await holder.gives_up(failed, ValueError("no such address"), Reason.DEAD)
    await app.job("mail", "cancelled").cancel()
    await app.queue("mail").remove("removed")
    await send.options(id="scheduled", delay=3_600).enqueue("ada")
    await send.options(id="blocked", after=[app.job("mail", active.ref.id)]).enqueue("ada")
    await send.options(id="waiting too").enqueue("ada")


@pytest.mark.promise("P-43", "P-115", "A-35", "A-45", "E-67")
def test_every_face_counts_the_same_and_it_adds_up(app: App, leasemq: Command) -> None:
    app.call_sync(lambda: _fill_each_state(app))
    counts = app.call_sync(app.queue("mail").counts)
    metered = app.metrics_sync().queues[0]

    (listed,) = json.loads(leasemq("queues", AT, "--json").out)["queues"]
    shown = json.loads(leasemq("queues", "show", "mail", AT, "--json").out)
    (measured,) = json.loads(leasemq("metrics", AT, "--json").out)["queues"]
    exposed = leasemq("metrics", AT, "--prometheus").out
    for state, number in EACH_STATE.items():
        jobs = json.loads(leasemq("jobs", "mail", "--state", state, AT, "--json").out)["jobs"]
        assert [job["state"] for job in jobs] == [state] * number
        told = [getattr(counts, state), getattr(metered, state), listed[state], shown[state], measured[state]]
        assert told == [number] * 5, state
        assert f'leasemq_jobs{{queue="mail",state="{state}"}} {number}\n' in exposed
    for one in (listed, shown, measured):
        assert (one["accepted"], one["removed"]) == (10, 1)
    assert (counts.accepted, counts.removed) == (10, 1) == (sum(EACH_STATE.values()) + 1, 1)


@pytest.mark.promise("A-45")
def test_jobs_are_listed_newest_first_by_queue_state_task_and_id(filled: App, leasemq: Command) -> None:
    def ids(*arguments: str) -> list[str]:
        answer = leasemq("jobs", AT, "--json", *arguments)
        assert answer.code == 0, answer.err
        return [job["id"] for job in json.loads(answer.out)["jobs"]]

    assert ids() == ["sum", "waits", "later", "broken", "done"]
    assert ids("mail", "--state", "failed", "--state", "completed") == ["broken", "done"]
    assert ids("--task", "add") == ["sum"]
    assert ids("mail", "--id", "lat") == ["later"]
    assert ids("--limit", "2") == ["sum", "waits"]
    assert leasemq("jobs", "unknown", AT, "--json").code == 1


@pytest.mark.promise("A-45")
def test_a_list_goes_on_where_the_last_page_ended(filled: App, leasemq: Command) -> None:
    first = json.loads(leasemq("jobs", "mail", AT, "--json", "--limit", "3").out)
    rest = json.loads(leasemq("jobs", "mail", AT, "--json", "--cursor", first["cursor"]).out)
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ["waits", "later", "broken", "done"]
    assert rest["cursor"] is None
    assert f"--cursor {first['cursor']}" in leasemq("jobs", "mail", AT, "--limit", "3").err
    answer = leasemq("jobs", AT, "--cursor", first["cursor"])
    assert (answer.code, "name it" in answer.err) == (2, True)


@pytest.mark.promise("A-45", "B34")
def test_large_jobs_are_listed_page_by_page_without_their_values(app: App, leasemq: Command) -> None:
    jobs = app.tasks["send"].enqueue_many_sync([("x" * 200 * 1024,)] * 60)
    read: list[str] = []
    cursor: str | None = None
    while not read or cursor is not None:
        going_on = [] if cursor is None else ["--cursor", cursor]
        answer = leasemq("jobs", "mail", AT, "--json", "--limit", "50", *going_on)
        page = json.loads(answer.out)
        assert (answer.code, len(answer.out) <= 1024 * 1024) == (0, True)
        read += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
    assert read == [job.id for job in reversed(jobs)]


@pytest.mark.promise("A-45")
def test_a_cursor_that_no_page_gave_is_answered_in_one_line(filled: App, leasemq: Command) -> None:
    for cursor in ("garbage", "-1", "1.5", "9" * 30, ""):
        answer = leasemq("jobs", "mail", AT, f"--cursor={cursor}")
        assert (answer.code, answer.out) == (2, ""), cursor
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1


@pytest.mark.promise("A-45")
def test_a_list_of_all_queues_shows_the_newest_wherever_it_is_and_names_the_queues_that_it_cuts(
    app: App, leasemq: Command
) -> None:
    send = app.tasks["send"]
    send.options(queue="a").enqueue_many_sync([("ada",)] * 6)
    send.options(queue="b", id="newest").enqueue_sync("bob")
    send.options(queue="c", id="first-of-all").enqueue_sync("eve")

    listed = json.loads(leasemq("jobs", AT, "--json", "--limit", "3").out)
    assert {job["id"] for job in listed["jobs"]} > {"newest", "first-of-all"}
    assert (len(listed["jobs"]), listed["cursor"], listed["more_in"]) == (3, None, ["a"])
    assert "more in: a;" in leasemq("jobs", AT, "--limit", "3").err
    few = leasemq("jobs", AT, "--limit", "1")
    assert "more in: a, " in few.err
    whole = leasemq("jobs", AT, "--limit", "8")
    assert (whole.err, len(whole.out.splitlines())) == ("", 9)
    created = [job["created_at"] for job in json.loads(leasemq("jobs", AT, "--json").out)["jobs"]]
    assert created == sorted(created, reverse=True)


@pytest.mark.promise("A-45", "P-64")
def test_a_job_is_shown_with_its_counters_history_and_refused_writes(filled: App, leasemq: Command) -> None:
    answer = leasemq("job", "default/sum", AT, "--json")
    job = json.loads(answer.out)
    assert answer.code == 0
    assert {
        "id",
        "queue",
        "state",
        "result",
        "attempts",
        "failures",
        "stalls",
        "refused",
        "history",
    } <= job.keys()
    assert (job["id"], job["queue"], job["state"], job["result"]) == ("sum", "default", "completed", 3)
    assert (job["attempts"], job["failures"], job["stalls"]) == (1, 0, 0)
    assert [(one["number"], one["outcome"], one["worker"]) for one in job["history"]] == [
        (1, "completed", "test")
    ]
    assert [(one["write"], one["answer"]) for one in job["refused"]] == [("progress", "lost")]
    assert job["progress"]["current"] == 1
    plain = leasemq("job", "sum", AT).out
    for part in ("history", "refused", "progress\tlost", "result"):
        assert part in plain


@pytest.mark.promise("P-102")
def test_a_secret_is_masked_wherever_a_job_is_shown(filled: App, leasemq: Command) -> None:
    for arguments in (["job", "done"], ["job", "done", "--json"], ["jobs"], ["jobs", "--json"]):
        printed = leasemq(*arguments, AT)
        assert "hunter2" not in printed.out + printed.err
    assert json.loads(leasemq("job", "done", AT, "--json").out)["arguments"]["kwargs"] == {
        "to": "ada",
        "password": "***",
    }


def test_a_failed_job_shows_the_traceback(filled: App, leasemq: Command) -> None:
    error = json.loads(leasemq("job", "broken", AT, "--json").out)["error"]
    assert (error["type"], error["message"]) == ("ValueError", "no such address")
    assert "ValueError: no such address" in leasemq("job", "broken", AT).out


@pytest.mark.promise("A-45", "A-23")
def test_dead_letters_are_listed_and_replayed(filled: App, leasemq: Command) -> None:
    assert [job["id"] for job in json.loads(leasemq("dead", AT, "--json").out)["jobs"]] == ["broken"]
    assert "broken" in leasemq("dead", AT, "--queue", "mail", "--task", "send").out
    assert json.loads(leasemq("dead", AT, "--queue", "default", "--json").out)["jobs"] == []
    answer = leasemq("dead", "replay", "mail/broken", AT)
    assert (answer.code, answer.out) == (0, "mail/broken: replayed\n")
    assert json.loads(leasemq("job", "broken", AT, "--json").out)["state"] == "waiting"


@pytest.mark.promise("A-45")
def test_what_is_not_found_ends_with_1_and_one_line(filled: App, leasemq: Command) -> None:
    for arguments in (
        ["job", "nope"],
        ["job", "nope/done"],
        ["job", "done", "--queue", "default"],
        ["cancel", "nope"],
        ["replay", "nope"],
        ["dead", "replay", "nope"],
        ["remove", "nope"],
        ["promote", "nope"],
    ):
        answer = leasemq(*arguments, AT)
        assert (answer.code, answer.out) == (1, ""), arguments
        assert answer.err.startswith("error: no job ")
        assert answer.err.count("\n") == 1


@pytest.mark.promise("P-42", "A-50")
@pytest.mark.parametrize(
    "name", ["a/b", "三日本", "x\u202ey", "with space", "-dash", "e" * 255, "back\\slash"]
)
def test_an_odd_name_is_found_and_shown_escaped(app: App, leasemq: Command, name: str) -> None:
    app.tasks["send"].options(id=name, queue=name).enqueue_sync("ada")
    answer = leasemq("job", AT, "--json", "--", f"{name}/{name}")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["id"] == name
    assert leasemq("job", AT, "--", name).code == 0
    listed = leasemq("jobs", AT).out
    assert "\u202e" not in listed
    assert len(listed.splitlines()) == 2
    assert json.loads(leasemq("queues", AT, "--json").out)["queues"][0]["queue"] == name


def test_an_id_in_two_queues_has_to_be_made_clear(app: App, leasemq: Command) -> None:
    for queue in ("a", "b"):
        app.tasks["send"].options(id="x", queue=queue).enqueue_sync("ada")
    answer = leasemq("job", "x", AT)
    assert answer.code == 2
    assert "a, b" in answer.err
    assert json.loads(leasemq("job", "x", "--queue", "b", AT, "--json").out)["queue"] == "b"
    assert json.loads(leasemq("job", "a/x", AT, "--json").out)["queue"] == "a"


@pytest.mark.promise("P-102", "A-41")
def test_config_shows_each_setting_with_its_source_and_no_password(
    leasemq: Command, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "pyproject.toml").write_text("[tool.leasemq]\nconcurrency = 5\nqueues = ['mail', 'sms']\n")
    monkeypatch.setenv("LEASEMQ_URL", "postgresql://me:hunter2@host/db")
    monkeypatch.setenv("LEASEMQ_LEASE", "12.5")
    answer = leasemq("config", "--json")
    found: dict[str, dict[str, Any]] = {one["name"]: one for one in json.loads(answer.out)["settings"]}
    assert found["url"]["value"] == "postgresql://me:***@host/db"
    assert (found["url"]["source"], found["lease"]["value"]) == ("LEASEMQ_URL", 12.5)
    assert (found["queues"]["value"], found["concurrency"]["value"]) == (["mail", "sms"], 5)
    assert found["concurrency"]["source"].endswith("pyproject.toml")
    assert found["drain"]["source"] == "default"
    assert "hunter2" not in leasemq("config").out
    assert "mail, sms" in leasemq("config").out


def test_the_settings_name_the_backend_where_no_option_does(
    app: App, leasemq: Command, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    app.tasks["send"].options(id="x").enqueue_sync("ada")
    (folder / "pyproject.toml").write_text("[tool.leasemq]\napp = 'myapp:app'\n")
    assert leasemq("job", "x").code == 0
    monkeypatch.setenv("LEASEMQ_URL", "sqlite:///jobs.db")
    assert leasemq("job", "x").code == 0
    monkeypatch.setenv("LEASEMQ_URL", "sqlite:///other.db")
    assert leasemq("job", "x").code == 1
    assert leasemq("job", "x", "--url", "sqlite:///jobs.db").code == 0


@pytest.mark.promise("P-07", "P-84")
def test_doctor_says_what_the_backend_is_and_workers_lists_nobody(filled: App, leasemq: Command) -> None:
    found = json.loads(leasemq("doctor", AT, "--json").out)
    assert (found["backend"], found["durability"], found["dead_letters"]) == ("sqlite", "D1", 1)
    assert (found["queues"], found["paused"], found["workers"]) == (2, [], 0)
    assert "durability\tD1" in leasemq("doctor", AT).out
    assert json.loads(leasemq("workers", AT, "--json").out) == {"workers": []}
    assert leasemq("workers", AT).out.startswith("worker\tincarnation\thost")


@pytest.mark.promise("P-07")
@pytest.mark.parametrize(
    ("kind", "warning"),
    [(PostgresServer, "fsync is off"), (RedisServer, "appendonly is off: a restart loses jobs")],
)
def test_doctor_names_what_may_lose_jobs(
    kind: type[PostgresServer | RedisServer], warning: str, leasemq: Command, folder: Path
) -> None:
    with kind(folder) as server:
        (found,) = json.loads(leasemq("doctor", "--url", server.url, "--json").out)["warnings"]
        told = leasemq("doctor", "--url", server.url).out

    assert warning in found
    assert f"warnings\t{found}" in told


@pytest.mark.promise("P-99")
def test_what_cannot_be_read_is_shown_as_such(app: App, leasemq: Command, folder: Path) -> None:
    from leasemq.cli.shaping import job_plain

    job = app.tasks["send"].options(id="x").enqueue_sync("ada")
    from dataclasses import replace

    damaged = replace(job.record_sync(), payload=b"{", error=b"?", overrides=b"{}")
    plain = job_plain(damaged)
    for part in ("arguments", "error", "overrides"):
        assert plain[part].startswith("<the stored ")


@pytest.mark.promise("A-41")
def test_a_variable_that_is_no_setting_is_named(leasemq: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEMQ_CONCURENCY", "5")
    answer = leasemq("config", AT)
    assert (answer.code, answer.err) == (0, "note: LEASEMQ_CONCURENCY is set, and is no setting\n")
