"""The text by which a model is shown blocks: each in a fence of its label, no line of which can end it."""

from collections.abc import Iterable
from typing import Final

from elytron_agent.blocks.block import Block
from elytron_core.policy.projection.escape import FenceTag, escape
from elytron_core.policy.projection.lines import label_of

_BLOCKS: Final = FenceTag.BLOCKS.value
_BLOCK: Final = FenceTag.BLOCK.value


def text_of(blocks: Iterable[Block], /) -> str:
    """Return blocks as a system prompt shows them; nothing for none."""
    shown = [_shown(block) for block in blocks]
    return "\n".join((f"<{_BLOCKS}>", *shown, f"</{_BLOCKS}>")) if shown else ""


def _shown(block: Block) -> str:
    label = label_of(block.label).replace('"', "'")
    about = f' description="{_quoted(block.description)}"' if block.description else ""
    read_only = ' read_only="true"' if block.read_only else ""
    head = f'<{_BLOCK} label="{label}"{about} chars="{len(block.value)}/{block.limit}"{read_only}>'
    return "\n".join((head, *_lines_of(block.value), f"</{_BLOCK}>"))


def _quoted(text: str) -> str:
    return escape(text).replace('"', "'")


def _lines_of(text: str) -> list[str]:
    """Return the lines of a block; none of them opens or closes a fence of blocks, or of a host's template."""
    return [escape(line) for line in text.split("\n")] if text else []
