"""The block: a bounded text under a label, with pure edits of it."""

from typing import Annotated

from pydantic import AfterValidator, Field

from elytron_agent import limits
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput
from elytron_core.model import Request
from elytron_core.scope import Name

PERSONA, HUMAN = "persona", "human"


def _parted(label: str) -> str:
    if any(part in {"", ".", ".."} for part in label.split("/")):
        raise ValueError("is no label: a part between slashes is empty or made of dots")
    return label


Label = Annotated[Name, AfterValidator(_parted)]
"""Label of a block. Slashes make folders, as the memory tool shows them."""
Cap = Annotated[int, Field(ge=1, le=limits.BLOCK_CHARS_MAX)]


class BlockDraft(Request):
    """A block to create: its text, what it is for, how long it may be, and whether tools may edit it."""

    label: Label
    value: str = ""
    description: Annotated[str, Field(max_length=limits.BLOCK_DESCRIPTION_CHARS)] = ""
    limit: Cap = limits.BLOCK_CHARS
    read_only: bool = False


class Block(BlockDraft):
    """A block as it is stored. `agent` is whose own it is; None: it is shared by the agents of the space."""

    agent: Name | None = None
    version: int
    updated_at: Instant


DEFAULTS = (
    BlockDraft(
        label=PERSONA,
        value="I am a helpful AI assistant.",
        description="Who the assistant is and how it behaves. The assistant edits it.",
    ),
    BlockDraft(label=HUMAN, description="What the assistant knows of the person it talks with."),
)
"""The blocks that an agent begins with."""


def replace(text: str, old: str, new: str, /) -> str:
    """Return `text` with every `old` replaced by `new`. Raises InvalidInput if it has none."""
    if not old or old not in text:
        raise InvalidInput(field="old", problem="does not stand in the block: repeat its text exactly")
    return text.replace(old, new)


def append(text: str, content: str, /) -> str:
    """Return `text` with `content` on a line of its own behind it."""
    return f"{text.rstrip()}\n{content}" if text.strip() else content


def insert(text: str, content: str, line: int, /) -> str:
    """Return `text` with `content` behind its line `line`: 0 is its beginning, -1 its end. Raises InvalidInput."""
    lines = text.split("\n") if text else []
    if not -1 <= line <= len(lines):
        raise InvalidInput(field="line", problem=f"is not between 0 and {len(lines)}, nor -1 for the end")
    place = len(lines) if line == -1 else line
    return "\n".join((*lines[:place], content, *lines[place:]))
