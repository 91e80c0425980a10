"""How `leasemq --help` lists its commands: by what they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

SECTIONS: Mapping[str, Sequence[str]] = {
    "Run": ("worker", "demo"),
    "Look at jobs": ("jobs", "job", "why", "watch"),
    "Change jobs": ("cancel", "replay", "promote", "reschedule", "reprioritise", "remove"),
    "Dead letters": ("dead",),
    "Queues": ("queues", "pause", "resume", "drain", "purge", "obliterate"),
    "Workers": ("workers",),
    "The store and its settings": ("migrate", "install", "doctor", "metrics", "config"),
}

_SENTENCE = 200  # characters, at most; the list wraps what is longer than a line


class Sections(click.Group):
    """A group whose commands are listed under headings; what has none comes last."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the headings and the commands under them."""
        placed = {name for names in SECTIONS.values() for name in names}
        rest = [name for name in self.commands if name not in placed]
        for heading, names in [*SECTIONS.items(), ("More", rest)]:
            rows = [
                (name, self.commands[name].get_short_help_str(limit=_SENTENCE))
                for name in names
                if name in self.commands and not self.commands[name].hidden
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
