"""The house rules about text that is not Python: statement files and prose."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.rules import Breach

UNTRACKED_FOLDERS = frozenset({".git", ".venv", "build", "dist", "node_modules", "__pycache__"})

# Reviewed ways to say what is *not* promised. Each is a denial wherever it stands.
DENIALS = (
    r"never",
    r"not",
    r"no",
    r"nor",
    r"never (?:claims?|says?|promises?|means?)",
    r"(?:does|do|can) ?not (?:claim|say|promise|mean)",
    r"rather than",
)
_CLAIM = r"exactly[-\s]+once"
_DENIED = re.compile(rf"\b(?:{'|'.join(DENIALS)})[\s\"'*_`“]+{_CLAIM}", re.IGNORECASE)

_STRINGS_AND_COMMENTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)|%\((\w+)\)s")
_SIGNATURE = re.compile(r"CREATE FUNCTION \{self\}\(([^)]*)\)")
_NOTHING = frozenset({"none", "nothing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One text file, by the path it is reported under."""

    path: str
    text: str


def project_texts(root: Path, package: Path) -> list[Text]:
    """Every text file of the project, the package's own taken from where it is imported from."""
    inside = root / "src" / package.name
    chosen = [file for file in _listed(root) if not file.is_relative_to(inside)]
    found = [(file, file.relative_to(root).as_posix()) for file in chosen]
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            found.append((file, f"src/{package.name}/{file.relative_to(package).as_posix()}"))
    read = [(path, file.read_bytes()) for file, path in found]
    return [Text(path=path, text=data.decode(errors="replace")) for path, data in read if b"\0" not in data]


def claims_one_run(text: Text) -> Iterator[Breach]:
    """A handler is never promised to run a single time; denying it in reviewed words is welcome."""
    remaining = _DENIED.sub(lambda match: "\n" * match[0].count("\n"), text.text)
    for match in re.finditer(_CLAIM, remaining, re.IGNORECASE):
        line = remaining.count("\n", 0, match.start()) + 1
        yield Breach(where=text.path, line=line, what=f"says {match[0]!r}; handlers can run more than once")


def misstates_its_parameters(text: Text) -> Iterator[Breach]:
    """A statement file begins with what it does, `In:` its parameters, `Out:` its shape, and `In:` is true.

    The header is the comment lines on top. `In:` lists the parameters by name, separated by commas; a
    remark in parentheses after a name is skipped; `In: none` says that there are none. A function's are
    those of its signature.
    """
    header = _header(text.text)
    if not header or re.match(r"(?:In|Out):", header[0]):
        yield Breach(where=text.path, line=1, what="begins without a comment line that says what it does")
    fields = _fields(header)
    for name in ("In", "Out"):
        if name not in fields:
            yield Breach(where=text.path, line=1, what=f"has no `{name}:` line in its opening comment")
    used = _parameters(text.text)
    told = _told(fields.get("In", ""))
    if "In" in fields and told != used:
        yield Breach(
            where=text.path,
            line=1,
            what=f"In: tells {sorted(told - used)} in vain and leaves out {sorted(used - told)}",
        )


def _parameters(text: str) -> set[str]:
    """The names of a function's parameters, else those that the statement itself has."""
    if signature := _SIGNATURE.search(text):
        return {part.split()[0] for part in signature[1].split(",") if part.strip()}
    return {match[1] or match[2] for match in _PARAMETER.finditer(_STRINGS_AND_COMMENTS.sub(" ", text))}


def _header(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.lstrip("-").strip())
    return lines


def _fields(header: list[str]) -> dict[str, str]:
    """What follows `In:` and `Out:`, continuation lines joined."""
    fields: dict[str, str] = {}
    current = ""
    for line in header:
        if match := re.match(r"([A-Z][a-z]+):\s*(.*)", line):
            current = match[1]
            fields[current] = match[2]
        elif current:
            fields[current] += f" {line}"
    return fields


def _told(listing: str) -> set[str]:
    plain = re.sub(r"\([^)]*\)", " ", listing).strip(" .")
    names = {match[1] for part in plain.split(",") if (match := re.match(r"[\s:`]*(\w+)", part))}
    return names - _NOTHING


def _listed(root: Path) -> list[Path]:
    """Tracked files and new ones that are not ignored; without git, every file outside the usual folders."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        answer = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [
            file
            for file in sorted(root.rglob("*"))
            if not UNTRACKED_FOLDERS & set(file.relative_to(root).parts) and file.is_file()
        ]
    return [root / name for name in sorted(set(answer.split("\0"))) if name and (root / name).is_file()]
