"""The command line: what people type, and one clear line for what they mistype."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import click

from leasemq.cli.acting import cancel, promote, remove, replay, reprioritise, reschedule
from leasemq.cli.dead_letters import dead
from leasemq.cli.explaining import why
from leasemq.cli.looking import config, doctor, job, jobs, migrate
from leasemq.cli.metering import metrics
from leasemq.cli.registry import workers
from leasemq.cli.running import demo, worker
from leasemq.cli.sections import Sections
from leasemq.cli.watching import watch
from leasemq.cli.whole_queues import drain, obliterate, pause, purge, queues, resume
from leasemq.errors import IllegalMove, LeaseMQError, Refused, UniqueConflict, Unsupported
from leasemq.protocol.names import mask_urls, shown

NOT_DONE = 1  # not found, not allowed in this state, not reachable
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def _version() -> str:
    try:
        return version("leasemq")
    except PackageNotFoundError:  # run from a checkout
        return "of this checkout"


EXITS = """
\b
Exit codes: 0 done, 1 not found or not possible, 2 wrong use, 130 interrupted or not confirmed.
Every command but `worker` answers in JSON with --json. They find the store by --url or --app, else
LEASEMQ_URL, else [tool.leasemq] in pyproject.toml.
"""


@click.group(
    cls=Sections,
    epilog=EXITS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_version(), message="leasemq %(version)s")
def commands() -> None:
    """LeaseMQ: an at-least-once task queue whose leases are fenced."""


for command in (
    worker,
    queues,
    jobs,
    job,
    why,
    watch,
    dead,
    workers,
    cancel,
    replay,
    promote,
    reprioritise,
    reschedule,
    remove,
    pause,
    resume,
    drain,
    purge,
    obliterate,
    migrate,
    demo,
    config,
    doctor,
    metrics,
):
    commands.add_command(command)
commands.add_command(migrate, "install")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and answer its exit code; 1: not found or not possible, 2: wrong use."""
    try:
        code = commands.main(
            None if arguments is None else list(arguments), prog_name="leasemq", standalone_mode=False
        )
        if sys.stdout is not None:  # None where it was closed before the start
            sys.stdout.flush()
    except click.UsageError as error:
        return _wrong_use(error)
    except click.ClickException as error:
        return _told(error.format_message(), error.exit_code)
    except click.Abort:
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return NOT_DONE  # as click answers where it meets the closed pipe first
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        _give_up_stdout()
        return _told(f"the answer could not be written: {error.strerror}", NOT_DONE)
    except LeaseMQError as error:
        return _told(str(error), _code(error))
    return code if isinstance(code, int) else 0


def _give_up_stdout() -> None:
    """Python flushes stdout once more at exit, into what cannot be written: point it elsewhere."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _code(error: LeaseMQError) -> int:
    is_state = isinstance(error, IllegalMove | UniqueConflict)
    return USAGE if isinstance(error, Refused | Unsupported) and not is_state else NOT_DONE


def _wrong_use(error: click.UsageError) -> int:
    if error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
    return _told(error.format_message(), error.exit_code)


def _told(text: str, code: int) -> int:
    click.echo(f"error: {shown(mask_urls(' '.join(text.split())))}", err=True)
    return code
