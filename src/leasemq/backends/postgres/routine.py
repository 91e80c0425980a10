"""What a call needs to know of one stored function. `functions.py` makes them from the .sql files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """One operation as the server knows it."""

    name: str  # the operation's, as in the file's name
    qualified: str  # schema and function, quoted
    parameters: tuple[str, ...]  # their types as SQL spells them, in order
    is_read: bool  # a lost answer leaves nothing in doubt
    text: str = ""  # of what is no function but a statement of its own

    @property
    def statement(self) -> str:
        """The one statement that calls it."""
        if self.text:
            return self.text
        places = ", ".join(f"${number}" for number in range(1, len(self.parameters) + 1))
        return f"SELECT * FROM {self.qualified}({places})"  # noqa: S608 - names are made and quoted by us
