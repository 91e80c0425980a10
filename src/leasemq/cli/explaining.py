"""`leasemq why`: the reasons why a job does not run, or ran more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.choosing import queue_option
from leasemq.cli.finding import namesakes, readings
from leasemq.cli.printing import print_json, print_text
from leasemq.cli.target import looked_at, target_options
from leasemq.client.explaining import is_known
from leasemq.errors import InvalidName, InvalidSetting, JobNotFound
from leasemq.protocol.names import check_job_id, check_queue, shown
from leasemq.protocol.reasons import Reason, many

_Found = tuple[str, str, Sequence[Reason]]  # queue, id, reasons


@click.command()
@click.argument("name", metavar="[QUEUE/]ID")
@queue_option
@target_options
def why(name: str, queue: str | None, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Say why a job does not run, or ran more than once: the true reason first."""

    async def look(app: App) -> _Found:
        return await _explained(app, name, queue)

    found_queue, id_, reasons = looked_at(url, app_name, look)
    if as_json:
        print_json({"queue": found_queue, "id": id_, "reasons": [reason_plain(one) for one in reasons]})
        return
    click.echo(f"{shown(found_queue)}/{shown(id_)}")
    for number, reason in enumerate(reasons, start=1):
        click.echo(f"{number}. {reason.kind.value}")
        print_text(reason.says)
        if reason.remedy:
            print_text(f"-> {reason.remedy}")


def reason_plain(reason: Reason) -> dict[str, Any]:
    """Answer one reason as plain data."""
    return {
        "kind": reason.kind.value,
        "says": reason.says,
        "remedy": reason.remedy or None,
        "is_about_reruns": reason.kind.is_about_reruns,
        "values": dict(reason.values),
    }


async def _explained(app: App, name: str, queue: str | None) -> _Found:
    """Answer the reasons for the one job that the name means. Raises: JobNotFound, InvalidSetting."""
    asked = [(queue, name)] if queue is not None else await readings(app, name)
    answers: list[_Found] = []
    unknown: list[Reason] = []
    for one_queue, id_ in asked:
        if not _is_name(one_queue, id_):
            continue
        reasons = await app.job(one_queue, id_).why(elsewhere=queue is not None)
        if is_known(reasons):
            answers.append((one_queue, id_, reasons))
        else:
            unknown.extend(reasons)
    if len(answers) > 1:
        places = ", ".join(shown(place) for place, _, _ in answers)
        raise InvalidSetting(f"{shown(name)} is a job in several queues ({places}); say --queue")
    if answers:
        return answers[0]
    if queue is not None and unknown:
        raise JobNotFound(unknown[0].says)
    looked_in, also = many(len(await app.queues()), "queue"), await namesakes(app, name, queue)
    raise JobNotFound(
        f"there is no job {shown(name)}; looked in {looked_in}: it was never enqueued here, or its record is"
        f" no longer kept, or its unique key was held and the holder was answered{also}"
    )


def _is_name(queue: str, id_: str) -> bool:
    try:
        check_queue(queue)
        check_job_id(id_)
    except InvalidName:
        return False
    return True
