"""Curated entries: short notes in a list with a limit, and pure changes of such a list."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from elytron_agent import injection_scan, limits
from elytron_agent.tool import ToolArguments

DELIMITER: Final = "\n§\n"
_MARK: Final = DELIMITER.strip()

Entries = tuple[str, ...]


class Target(StrEnum):
    """A list: the assistant's own notes, or its knowledge of the user."""

    MEMORY = "memory"
    USER = "user"

    @property
    def file_name(self) -> str:
        return "MEMORY.md" if self is Target.MEMORY else "USER.md"


class Action(StrEnum):
    """Action on an entry."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class Operation(ToolArguments):
    """One change: `content` is the new text, `old_text` a part of the entry that is meant."""

    action: Action
    content: Annotated[str, Field(max_length=limits.CURATED_CHARS_MAX)] = ""
    old_text: Annotated[str, Field(max_length=limits.CURATED_CHARS_MAX)] = ""


class Refusal(NamedTuple):
    """Why nothing was changed. `shows_entries`: the model needs the entries to do better."""

    error: str
    matches: tuple[str, ...] = ()
    shows_entries: bool = False


def parsed(text: str, /) -> Entries:
    """Return the entries of a file's text, trimmed, each once."""
    return tuple(dict.fromkeys(entry for part in text.split(DELIMITER) if (entry := part.strip())))


def written(entries: Sequence[str], /) -> str:
    """Return the text of a file with these entries."""
    return DELIMITER.join(entries)


def is_written(text: str, /, *, limit: int) -> bool:
    """Return whether a file's text is a list of entries: parsed and written it is the same text."""
    parts = [entry for part in text.split(DELIMITER) if (entry := part.strip())]
    return text.strip() == written(parts) and all(len(entry) <= limit for entry in parts)


def applied(entries: Entries, operations: Sequence[Operation], /, *, limit: int) -> Entries | Refusal:
    """Return the entries after all operations, or why none was done; only the result has to fit the limit."""
    working = list(entries)
    for number, operation in enumerate(operations, 1):
        refusal = _change(working, operation)
        if refusal is not None:
            return _of_batch(refusal, number, operation) if len(operations) > 1 else refusal
    before, after = len(written(entries)), len(written(working))
    if after > limit and after >= before:
        error = (
            f"The entries would have {after:,} of {limit:,} characters. Nothing was written. "
            "Shorten, merge or remove entries in the same call, as a list of operations."
        )
        return Refusal(error, shows_entries=True)
    return tuple(working)


def _of_batch(refusal: Refusal, number: int, operation: Operation) -> Refusal:
    error = f"Operation {number} ({operation.action}): {refusal.error} No operation was done: all are, or none."
    return refusal._replace(error=error, shows_entries=True)


def _change(working: list[str], operation: Operation) -> Refusal | None:
    """Apply one operation to `working`, or return why not."""
    content = operation.content.strip()
    if operation.action is not Action.REMOVE:
        refusal = _refused_content(content)
        if refusal is not None:
            return refusal
    if operation.action is Action.ADD:
        if content not in working:
            working.append(content)
        return None
    found = _found(working, operation)
    if isinstance(found, Refusal):
        return found
    if operation.action is Action.REMOVE:
        working.pop(found)
    elif content in working and working[found] != content:
        working.pop(found)  # the same entry twice says nothing more
    else:
        working[found] = content
    return None


def _refused_content(content: str) -> Refusal | None:
    if not content:
        return Refusal("content is needed and is empty.")
    if any(line.strip() == _MARK for line in content.split("\n")):
        return Refusal(f"content has a line of {_MARK} alone, which parts entries.")
    refusal = injection_scan.refusal_of(content)
    return Refusal(f"content was refused: {refusal}.") if refusal is not None else None


def _found(working: Sequence[str], operation: Operation) -> int | Refusal:
    """Return the place of the one entry that `old_text` is part of; of equal entries, the first."""
    old = operation.old_text.strip()
    if not old:
        return Refusal(f"{operation.action} needs old_text: a part of the entry that no other has.", shows_entries=True)
    places = [place for place, entry in enumerate(working) if old in entry]
    if not places:
        return Refusal("No entry has this old_text: repeat a part of one exactly.", shows_entries=True)
    different = list(dict.fromkeys(working[place] for place in places))
    if len(different) > 1:
        previews = tuple(_preview(entry) for entry in different)
        return Refusal("Several entries have this old_text: give more of the one that is meant.", previews)
    return places[0]


def _preview(entry: str) -> str:
    most = limits.CURATED_PREVIEW_CHARS
    return entry if len(entry) <= most else f"{entry[:most]}..."
