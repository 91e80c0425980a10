"""`leasemq job`: how far a job said it is, its attempts, and with --history what happened to it."""

from __future__ import annotations

import asyncio
import json

import pytest

from leasemq import App
from leasemq.notes import encode_log_line, encode_progress
from leasemq.protocol.model import Note, NoteKind
from tests.app.holder import Holder
from tests.cli.conftest import Command

AT = "--url=sqlite:///jobs.db"


@pytest.fixture
def told(app: App) -> None:
    """A job that keeps its history, failed once, and told of itself; and one that keeps none."""

    async def fill() -> None:
        async with app:
            send, holder = app.tasks["send"], Holder(app)
            job = await send.options(id="j", history=5).enqueue("ada")
            await send.options(id="plain").enqueue("ada")
            (lease,) = await holder.claim("mail")
            notes = [
                (NoteKind.LOG, encode_log_line("begun\x1b[31m")),
                (NoteKind.PROGRESS, encode_progress(1, 3, "a third", None, 1)),
            ]
            backend = (await app._connections.here()).backend
            await backend.note(
                "mail",
                [Note(job_id=job.id, fence=lease.fence, kind=kind, value=value) for kind, value in notes],
            )
            await holder.raises(lease, ValueError("no such address"))

    asyncio.run(fill())


@pytest.mark.promise("P-63", "E-38", "A-45")
def test_a_history_is_shown_page_by_page(told: None, leasemq: Command) -> None:
    first = json.loads(leasemq("job", "j", "--history", "--limit", "3", AT, "--json").out)
    second = json.loads(leasemq("job", "mail/j", "--history", "--cursor", first["cursor"], AT, "--json").out)

    entries = [*first["history"], *second["history"]]
    assert [(one["number"], one["kind"], one["state"]) for one in entries] == [
        (1, "enqueued", "waiting"),
        (2, "claimed", "active"),
        (3, "log", "active"),
        (4, "progress", "active"),
        (5, "failed", "failed"),
    ]
    assert (entries[3]["progress"]["current"], entries[2]["message"]) == (1, "begun\x1b[31m")
    assert entries[0]["at"].endswith("Z")
    assert (first["id"], first["keeps"], first["truncated"]) == ("j", 5, False)

    printed = leasemq("job", "j", "--history", "--limit", "3", AT)
    assert "\\x1b[31m" in printed.out
    assert f"more: --cursor {first['cursor']}" in printed.err
    assert "1/3 (33 %) a third" in leasemq("job", "j", "--history", AT).out


@pytest.mark.promise("P-63", "E-37")
def test_a_job_without_a_history_says_how_it_would_have_one(told: None, leasemq: Command) -> None:
    answer = leasemq("job", "plain", "--history", AT)
    assert (answer.code, "history=N" in answer.err) == (0, True)


@pytest.mark.promise("E-38")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--history", "--cursor", "7"), 2, "cursor"),
        (("--cursor", "7"), 2, "--history"),
        (("--limit", "7"), 2, "--history"),
        (("--history", "--limit", "0"), 2, "1<=x<=1000"),
    ],
)
def test_what_is_no_page_of_a_history_is_refused(
    told: None, leasemq: Command, arguments: tuple[str, ...], code: int, said: str
) -> None:
    answer = leasemq("job", "j", *arguments, AT)
    assert answer.code == code
    assert said in answer.err


@pytest.mark.promise("P-63", "P-64")
def test_progress_and_the_attempts_errors_are_shown_in_a_line(told: None, leasemq: Command) -> None:
    printed = leasemq("job", "j", AT).out
    assert "progress\t1/3 (33 %) a third" in printed
    assert "no such address" in next(line for line in printed.splitlines() if line.startswith("1\ttest"))
