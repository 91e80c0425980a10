"""Every command that an operator has, run on a SQLite file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from leasemq import App
from leasemq.cli import commands
from leasemq.protocol.decide import Reason
from leasemq.protocol.insight import WorkerInfo
from tests.app.holder import Holder
from tests.cli.conftest import Answer, Command

AT = "--url=sqlite:///jobs.db"
RUNS: dict[str, list[str]] = {  # each is also tried by what it does, below or in another module
    "jobs": ["jobs", "mail", "--state", "failed"],
    "job": ["job", "waits"],
    "why": ["why", "waits"],
    "cancel": ["cancel", "waits"],
    "replay": ["replay", "--all", "--dry-run"],
    "promote": ["promote", "later"],
    "reschedule": ["reschedule", "later", "--in", "5m"],
    "reprioritise": ["reprioritise", "waits", "--priority", "-3"],
    "remove": ["remove", "waits"],
    "dead": ["dead", "--queue", "mail"],
    "dead replay": ["dead", "replay", "bad-0"],
    "dead count": ["dead", "count"],
    "dead purge": ["dead", "purge", "--older-than", "30d", "--yes"],
    "queues": ["queues"],
    "queues show": ["queues", "show", "mail"],
    "queues pause": ["queues", "pause", "mail"],
    "queues resume": ["queues", "resume", "mail"],
    "queues drain": ["queues", "drain", "mail", "--dry-run"],
    "queues purge": ["queues", "purge", "mail", "--dry-run"],
    "queues obliterate": ["queues", "obliterate", "mail", "--force", "--dry-run"],
    "pause": ["pause", "mail"],
    "resume": ["resume", "mail"],
    "drain": ["drain", "mail", "--yes"],
    "purge": ["purge", "mail", "--yes"],
    "obliterate": ["obliterate", "mail", "--force", "--yes"],
    "workers": ["workers"],
    "workers show": ["workers", "show", "w1"],
    "workers deregister": ["workers", "deregister", "w1"],
    "migrate": ["migrate"],
    "install": ["install"],
    "doctor": ["doctor"],
    "metrics": ["metrics"],
    "config": ["config"],
}
RUN_ELSEWHERE = {  # they go on until they are told to stop, or until their job has ended
    "worker": "test_running.py",
    "demo": "test_running.py",
    "watch": "test_watching.py",
}
NOT_FOUND = [
    ["jobs", "nowhere"],
    ["job", "nobody"],
    ["why", "nobody"],
    ["cancel", "nobody"],
    ["replay", "nobody"],
    ["replay", "--all", "--queue", "nowhere"],
    ["promote", "nobody"],
    ["reschedule", "nobody", "--in", "1"],
    ["reprioritise", "nobody", "--priority", "1"],
    ["remove", "nobody"],
    ["dead", "--queue", "nowhere"],
    ["dead", "replay", "nobody"],
    ["dead", "count", "--queue", "nowhere"],
    ["dead", "purge", "--queue", "nowhere", "--yes"],
    ["queues", "show", "nowhere"],
    ["drain", "nowhere", "--yes"],
    ["purge", "nowhere", "--yes"],
    ["obliterate", "nowhere", "--yes"],
    ["workers", "show", "nobody"],
    ["workers", "deregister", "nobody"],
]


@pytest.fixture
def stocked(app: App) -> App:
    """Two dead letters, one job done, one running, one waiting, one delayed, and a worker on the list."""
    send = app.tasks["send"]

    async def stock() -> None:
        holder = Holder(app)
        for n in range(2):
            await send.options(id=f"bad-{n}").enqueue("nobody")
        await send.options(id="done").enqueue("ada")
        first, second, third = await holder.claim("mail", limit=3)
        await holder.gives_up(first, ValueError("no"), Reason.DEAD)
        await holder.gives_up(second, ValueError("no"), Reason.TIMEOUT)
        await holder.returns(third, send, "sent to ada")
        await send.options(id="runs").enqueue("bob")
        await holder.claim("mail")
        await send.options(id="waits").enqueue("eve")
        await send.options(id="later", delay=3_600).enqueue("eve")
        backend = (await app._connections.here()).backend
        await backend.announce(announced("w1", "one"), 600_000)

    app.call_sync(stock)
    return app


def announced(worker: str, incarnation: str) -> WorkerInfo:
    return WorkerInfo(
        worker=worker,
        incarnation=incarnation,
        host="host",
        pid=1,
        version="1",
        queues=("mail",),
        slots=4,
        running=1,
    )


def walked(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command of the tree, under the words that call it."""
    for name, command in group.commands.items():
        yield " ".join([*path, name]), command
        if isinstance(command, click.Group):
            yield from walked(command, (*path, name))


def said(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


@pytest.mark.promise("A-45")
def test_each_command_has_help_and_json_and_a_test_that_runs_it() -> None:
    tree = dict(walked(commands))
    for words, command in tree.items():
        assert command.help, f"{words} says nothing of itself"
        assert any("--json" in one.opts for one in command.params), f"{words} has no --json"
        for option in command.params:
            if (
                isinstance(option, click.Option)
                and option.name not in ("limit", "states")
                and not option.hidden
            ):
                assert option.help, f"{words} {option.opts} has no help"
    assert not set(tree) - set(RUNS) - set(RUN_ELSEWHERE)
    for words, module in RUN_ELSEWHERE.items():
        assert f'"{words}"' in (Path(__file__).parent / module).read_text()


@pytest.mark.promise("A-45", "A-38")
@pytest.mark.parametrize("words", RUNS)
def test_each_command_answers_in_json_and_in_text(stocked: App, leasemq: Command, words: str) -> None:
    if words not in dict(walked(commands)):
        pytest.fail(f"there is no command {words} any more")
    in_json = leasemq(*RUNS[words], "--json", AT)

    assert in_json.code == 0, in_json.err
    assert isinstance(json.loads(in_json.out), dict)
    assert in_json.out.isascii()
    if words in ("jobs", "job", "queues", "dead", "workers", "queues show", "doctor", "config", "dead count"):
        in_text = leasemq(*RUNS[words], AT)
        assert in_text.code == 0
        assert in_text.out
        assert "{" not in in_text.out


@pytest.mark.promise("A-45", "A-22")
@pytest.mark.parametrize("arguments", NOT_FOUND, ids=" ".join)
def test_what_is_not_found_ends_with_code_1_and_one_line(
    stocked: App, leasemq: Command, arguments: list[str]
) -> None:
    answer = leasemq(*arguments, AT)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1


@pytest.mark.promise("A-45")
def test_the_page_on_administration_has_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "administration.md").read_text()
    for words, _ in walked(commands):
        assert f"leasemq {words}" in page or f"leasemq {words.removeprefix('queues ')}" in page, words


# ---- jobs


@pytest.mark.promise("P-54", "A-23", "A-45")
def test_dead_letters_are_counted_filtered_and_replayed_with_a_dry_run(
    stocked: App, leasemq: Command
) -> None:
    assert said(leasemq("dead", "count", "--json", AT)) == {
        "dead_letters": 2,
        "queues": [{"queue": "mail", "dead_letters": 2}],
    }
    assert said(leasemq("dead", "count", "--reason", "timeout", "--json", AT))["dead_letters"] == 1
    assert [job["id"] for job in said(leasemq("dead", "--reason", "dead", "--json", AT))["jobs"]] == ["bad-0"]
    assert leasemq("dead", "replay", "--all", "--dry-run", AT).out == "mail: 2 would be replayed\n"
    assert leasemq("dead", "count", AT).out.endswith("mail\t2\n")
    told = said(leasemq("dead", "--reason", "timeout", "replay", "--all", "--json", AT))
    assert (told["dry_run"], told["queues"][0]["done"]) == (False, 1)
    assert leasemq("replay", "--all", "--queue", "mail", AT).out == "mail: 1 replayed\n"
    assert said(leasemq("dead", "count", "--json", AT))["dead_letters"] == 0


@pytest.mark.promise("A-23", "P-53")
def test_dead_letters_are_purged_by_age_and_reason(
    stocked: App, leasemq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leasemq("dead", "purge", "--older-than", "7d", "--yes", AT).out == "mail: 0 removed\n"
    assert leasemq("dead", "purge", "--reason", "dead", "--dry-run", AT).out == "mail: 1 would be removed\n"
    monkeypatch.setattr("click.confirm", refused)
    assert leasemq("dead", "purge", AT).code == 130
    assert leasemq("dead", "purge", "--yes", AT).out == "mail: 2 removed\n"


@pytest.mark.promise("P-54", "P-41")
def test_a_replay_that_meets_a_conflict_says_so_and_ends_with_code_1(app: App, leasemq: Command) -> None:
    send = app.tasks["send"]

    async def collide() -> None:
        holder = Holder(app)
        await send.options(id="loser", unique="k").enqueue("a")
        (lease,) = await holder.claim("mail")
        await holder.gives_up(lease, ValueError("no"), Reason.DEAD)
        await send.options(id="holder", unique="k").enqueue("a")

    app.call_sync(collide)
    answer = leasemq("dead", "replay", "--all", "--json", AT)
    (told,) = json.loads(answer.out)["queues"]
    assert (answer.code, told["done"], told["conflicts"]) == (1, 0, 1)
    assert told["not_done"][0]["holder"]["id"] == "holder"
    answer = leasemq("replay", "loser", AT)
    assert (answer.code, "unique key is held by holder" in answer.err) == (1, True)


@pytest.mark.promise("P-50", "P-53", "A-21", "E-49")
def test_many_jobs_are_cancelled_promoted_moved_and_removed_by_filters(
    stocked: App, leasemq: Command
) -> None:
    delayed = ["--all", "--queue", "mail", "--state", "scheduled"]
    assert leasemq("reprioritise", *delayed, "--priority", "7", AT).out == "mail: 1 reprioritised\n"
    assert leasemq("reschedule", *delayed, "--at", "2099-01-01T00:00+01:00", AT).code == 0
    later = said(leasemq("job", "later", "--json", AT))
    assert (later["priority"], later["due_at"]) == (7, "2098-12-31T23:00:00.000Z")
    assert leasemq("promote", "--all", AT).out == "mail: 1 promoted\n"
    assert leasemq("cancel", "--all", "--dry-run", AT).out == "mail: 2 would be cancelled, 1 told to stop\n"
    assert leasemq("cancel", "--all", "--id", "wai", "--yes", AT).out == "mail: 1 cancelled\n"
    told = said(leasemq("remove", "--all", "--state", "active", "--yes", "--json", AT))
    assert (told["queues"][0]["done"], told["queues"][0]["left_alone"]) == (0, 1)
    assert leasemq("remove", "--all", "--force", "--yes", "--task", "send", AT).out == "mail: 6 removed\n"


@pytest.mark.promise("A-22", "A-45")
def test_of_several_named_jobs_each_is_told_what_became_of_it(stocked: App, leasemq: Command) -> None:
    answer = leasemq("replay", "runs", "bad-0", "waits", "bad-1", AT)
    assert (answer.code, answer.out) == (1, "mail/bad-0: replayed\nmail/bad-1: replayed\n")
    assert [line.split(" is ")[0] for line in answer.err.splitlines()] == [
        "error: job runs",
        "error: job waits",
    ]
    answer = leasemq("promote", "later", "runs", "--json", AT)
    later, runs = json.loads(answer.out)["jobs"]
    assert (answer.code, later["answer"], runs["answer"]) == (1, "promoted", "refused")
    assert "only a scheduled job can be" in runs["error"]


@pytest.mark.promise("A-35", "E-55")
def test_jobs_are_listed_from_the_oldest_on_and_by_age(stocked: App, leasemq: Command) -> None:
    page = said(leasemq("jobs", "mail", "--oldest-first", "--limit", "2", "--json", AT))
    rest = said(leasemq("jobs", "mail", "--oldest-first", "--cursor", page["cursor"], "--json", AT))
    listed = [job["id"] for job in page["jobs"] + rest["jobs"]]
    assert listed == ["bad-0", "bad-1", "done", "runs", "waits", "later"]
    assert said(leasemq("jobs", "--oldest-first", "--limit", "1", "--json", AT))["jobs"][0]["id"] == "bad-0"
    assert said(leasemq("jobs", "--older-than", "1h", "--json", AT))["jobs"] == []
    assert len(said(leasemq("jobs", "--newer-than", "1h", "--json", AT))["jobs"]) == 6


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cancel"], "name jobs, or say --all"),
        (["cancel", "waits", "--all"], "not both"),
        (["cancel", "waits", "--task", "send"], "only with --all"),
        (["cancel", "waits", "--limit", "3"], "only with --all"),
        (["cancel", "waits", "--dry-run"], "what --all would do"),
        (["reschedule", "later"], "say --in or --at"),
        (["reschedule", "later", "--in", "1", "--at", "2030-01-01T00:00+00:00"], "say --in or --at"),
        (["reschedule", "later", "--in", "soon"], "'soon' is no duration; say 90, 15m, 2h or 7d"),
        (["reschedule", "later", "--in", "9" * 20 + "d"], "over 100 years"),
        (["reschedule", "later", "--at", "noon"], "'noon' is no instant"),
        (["reschedule", "later", "--at", "2030-01-01T00:00"], "has no time zone; say 2030-01-31T09:00+00:00"),
        (["reprioritise", "waits", "--priority", "101"], "not in the range"),
        (["drain", "mail", "--state", "active"], "'active' is not one of"),
        (["purge", "mail", "--state", "waiting"], "'waiting' is not one of"),
        (["dead", "--cursor", "1", "count"], "--cursor goes on with a list"),
        (["queues", "nonsense"], "No such command 'nonsense'"),
    ],
)
def test_wrong_use_is_told_before_anything_is_done(
    stocked: App, leasemq: Command, arguments: list[str], complaint: str
) -> None:
    answer = leasemq(*arguments, AT)
    assert (answer.code, answer.out) == (2, "")
    assert complaint in answer.err
    assert said(leasemq("queues", "show", "mail", "--json", AT))["removed"] == 0


# ---- queues, workers, the store


@pytest.mark.promise("P-53", "A-20", "A-36", "A-45")
def test_a_queue_is_drained_purged_and_obliterated(stocked: App, leasemq: Command) -> None:
    assert leasemq("queues", "drain", "mail", "--state", "waiting", "--dry-run", AT).out == (
        "mail: 1 would be removed\n"
    )
    assert leasemq("queues", "drain", "mail", "--state", "waiting", "--yes", AT).out == "mail: 1 removed\n"
    assert said(leasemq("drain", "mail", "--yes", "--json", AT)) == {"queue": "mail", "removed": 1}
    assert leasemq("purge", "mail", "--older-than", "1h", "--yes", AT).out == "mail: 0 removed\n"
    assert leasemq("purge", "mail", "--state", "failed", "--limit", "1", "--yes", AT).out == (
        "mail: 1 removed\n"
    )
    answer = leasemq("obliterate", "mail", "--yes", AT)
    assert (answer.code, "active jobs" in answer.err) == (1, True)
    assert said(leasemq("obliterate", "mail", "--force", "--dry-run", "--json", AT)) == {
        "queue": "mail",
        "removed": 3,
        "dry_run": True,
    }
    assert leasemq("obliterate", "mail", "--force", "--yes", AT).out == "mail: 3 removed\n"
    shown = said(leasemq("queues", "show", "mail", "--json", AT))
    assert (shown["accepted"], shown["removed"], shown["active"]) == (6, 6, 0)


@pytest.mark.promise("P-53")
@pytest.mark.parametrize(
    "arguments",
    [["drain", "mail"], ["purge", "mail"], ["obliterate", "mail", "--force"], ["remove", "--all"],
     ["cancel", "--all"], ["dead", "purge"]],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_undone_is_asked_first(
    stocked: App, leasemq: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("click.confirm", refused)
    assert leasemq(*arguments, AT).code == 130
    monkeypatch.setattr("sys.stdin", None)
    answer = leasemq(*arguments, AT)
    assert (answer.code, "say --yes" in answer.err) == (2, True)
    shown = said(leasemq("queues", "show", "mail", "--json", AT))
    assert (shown["removed"], shown["cancelled"]) == (0, 0)


def refused(text: str, *, abort: bool, err: bool) -> None:
    assert text.endswith("?")
    raise click.Abort


@pytest.mark.promise("A-33", "A-45")
def test_a_worker_is_shown_and_deregistered(stocked: App, leasemq: Command) -> None:
    (shown,) = said(leasemq("workers", "show", "one", "--json", AT))["workers"]
    assert (shown["worker"], shown["slots"], shown["queues"]) == ("w1", 4, ["mail"])
    assert "incarnation\tone" in leasemq("workers", "show", "w1", AT).out
    assert leasemq("workers", "deregister", "w1", AT).out == "w1 (one): deregistered\n"
    assert said(leasemq("workers", "--json", AT)) == {"workers": []}


@pytest.mark.promise("A-38", "A-45")
@pytest.mark.parametrize("word", ["migrate", "install"])
def test_a_store_is_prepared_and_nothing_in_it_is_lost_by_doing_so_again(
    folder: Path, app: App, leasemq: Command, word: str
) -> None:
    assert leasemq(word, AT).out.startswith("sqlite is ready: SQLite 3.")
    assert said(leasemq("queues", "--json", AT)) == {"queues": []}
    app.tasks["send"].options(id="kept").enqueue_sync("ada")
    first = said(leasemq("doctor", "--json", AT))
    assert said(leasemq(word, "--json", AT))["store_id"] == first["store_id"]
    assert leasemq("job", "kept", AT).code == 0
    assert first["leasemq"]
    answer = leasemq(word, "--url", "memory://")
    assert (answer.code, "lives inside one process" in answer.err) == (1, True)
    assert leasemq(word, "--url", "sqlite:///nowhere/jobs.db").code == 1


@pytest.mark.promise("P-42", "A-45")
def test_names_are_escaped_in_what_operators_are_told(app: App, leasemq: Command) -> None:
    name = "q\u202e[31m"
    app.tasks["send"].options(queue=name, id="x").enqueue_sync("a")
    for arguments in (["cancel", "--all", "--yes"], ["dead", "count"], ["drain", name, "--yes"]):
        out = leasemq(*arguments, AT).out
        assert "\\u202e" in out
        assert "\u202e" not in out


@pytest.mark.promise("A-45")
def test_an_option_before_a_subcommand_holds_for_it(
    stocked: App, leasemq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEMQ_URL", "sqlite:///another.db")
    assert said(leasemq("queues", AT, "--json", "show", "mail"))["queue"] == "mail"
    assert said(leasemq("workers", AT, "--json", "show", "w1"))["workers"][0]["worker"] == "w1"
    assert said(leasemq("dead", AT, "--json", "--queue", "mail", "count"))["dead_letters"] == 2
    assert leasemq("queues", "show", "mail").code == 1
