"""Store blocks, apply versioned changes to them, and check what a model writes into them."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.records import RecordItem
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, PermissionRefused, PreconditionFailed
from elytron_core.model import Request, Value
from elytron_core.planes.facts import FactAuthority
from elytron_core.policy.admission.learning_rules import FORGOTTEN_BEFORE, PAUSED, SUPPRESSED
from elytron_core.policy.admission.tombstones import plain_content
from elytron_core.policy.projection.fence import FenceTag
from elytron_core.policy.projection.sections import escape_line, label_of
from elytron_core.scope import Name

_REASONS: Final = {PAUSED, SUPPRESSED, FORGOTTEN_BEFORE}
_TOPIC: Final = "elytronprompttext"
"""Topic of the dry-run facts, a word that no rule mentions and whose slot never has a stored fact."""
_MARK: Final = re.compile(r"\A(?:[-*+•>#]+|\d+[.)])\s+")
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


async def learning_refusal(memory: MemoryFace, before: str, after: str, /, *, label: str = "") -> str | None:
    """Return why the space's rules forbid a model to change `before` to `after`, worded for the model, or None.

    Each new line and sentence is judged by a dry-run write of a fact that has `label` as a keyword. A text that only
    loses lines or sentences contains nothing new.
    """
    old_sentences = set(map(plain_content, _text_sentences(before)))
    new_sentences = {
        plain_text: sentence
        for sentence in _text_sentences(after)
        if (plain_text := plain_content(sentence)) not in old_sentences
    }
    drafts = [
        FactDraft(
            topic=_TOPIC, content=sentence, keywords=(label,) if label else (), authority=FactAuthority.USER_ASSERTED
        )
        for sentence in new_sentences.values()
    ]
    for batch_start in range(0, len(drafts), core_limits.WRITES_PER_REQUEST):
        fact_extraction = LongTermExtraction(
            facts=tuple(drafts[batch_start : batch_start + core_limits.WRITES_PER_REQUEST])
        )
        report = await memory.write(MemoryWriteRequest(write=fact_extraction, dry_run=True))
        reasons = (decision.reason for decision in report.decisions if decision.reason in _REASONS)
        if (reason := next(reasons, None)) is not None:
            return f"The text cannot be learned: {reason}. Nothing was changed."
    return None


def _text_sentences(text: str) -> Iterator[str]:
    """Yield the lines of a text without list markers, and their sentences, in pieces that fit into a fact."""
    for line in text.splitlines():
        unmarked_line = _MARK.sub("", line.strip())
        for sentence in dict.fromkeys((unmarked_line, *_ENDS.split(unmarked_line))):
            for piece_start in range(0, len(sentence), core_limits.FACT_CHARS):
                yield sentence[piece_start : piece_start + core_limits.FACT_CHARS]


PERSONA, HUMAN = "persona", "human"


def _parted_label(label: str) -> str:
    if any(part in {"", ".", ".."} for part in label.split("/")):
        raise ValueError("is not a valid label: a part between slashes is empty, `.` or `..`")
    return label


Label = Annotated[Name, AfterValidator(_parted_label)]
"""Label of a block. The memory tool shows slashes as folders."""
Cap = Annotated[int, Field(ge=1, le=limits.BLOCK_CHARS_MAX)]


class BlockDraft(Request):
    """A block to create: its text, purpose, maximum length, and whether tools may edit it."""

    label: Label
    value: str = ""
    description: Annotated[str, Field(max_length=limits.BLOCK_DESCRIPTION_CHARS)] = ""
    limit: Cap = limits.BLOCK_CHARS
    read_only: bool = False


class MemoryBlock(BlockDraft):
    """A stored block. `agent` is the agent it belongs to; None if all agents of the space share it."""

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
"""The blocks that a new agent starts with."""


def replace_text(text: str, old: str, new: str, /) -> str:
    """Return `text` with every `old` replaced by `new`. Raises InvalidInput if `old` does not occur."""
    if not old or old not in text:
        raise InvalidInput(field="old", problem="is not in the block: repeat its text exactly")
    return text.replace(old, new)


def append_text(text: str, content: str, /) -> str:
    """Return `text` with `content` appended on a line of its own."""
    return f"{text.rstrip()}\n{content}" if text.strip() else content


def insert_text(text: str, content: str, line: int, /) -> str:
    """Return `text` with `content` inserted after `line`: 0 is the beginning, -1 the end. Raises InvalidInput."""
    lines = text.split("\n") if text else []
    if not -1 <= line <= len(lines):
        raise InvalidInput(field="line", problem=f"must be between 0 and {len(lines)}, or -1 for the end")
    line_index = len(lines) if line == -1 else line
    return "\n".join((*lines[:line_index], content, *lines[line_index:]))


_SHARED: Final = ("blocks", "shared")
_OWN: Final = ("blocks", "agents")
Edit = Callable[[str], str]


class _StoredBlock(Value):
    """The stored form of a block. `calls` are the most recent tool calls that edited it."""

    value: str
    description: str = ""
    limit: int = limits.BLOCK_CHARS
    read_only: bool = False
    calls: Annotated[tuple[str, ...], Field(max_length=limits.BLOCK_CALLS)] = ()


class BlockAuthor(StrEnum):
    """Author of a block's new text."""

    HOST = "host"
    """The host, or a person through it. This is explicit control, which no rule judges."""
    MODEL = "model"
    """A model through its tools. The space's learning rules and tombstones judge the text as they would a fact."""


class BlockRepository:
    """The blocks of one agent in any memory, local or remote.

    Without `agent`, they are shared by all agents of the space. With one, they belong to that agent, except for the
    labels in `shared`. Each change expects the version that it read, so no edit is lost.
    """

    def __init__(self, memory: MemoryFace, /, *, agent: str | None = None, shared: Collection[str] = ()) -> None:
        self._memory = memory
        self._agent = agent
        self._shared = frozenset(shared)

    async def list(self) -> tuple[MemoryBlock, ...]:
        """Return the blocks in label order."""
        blocks = await self._of(self._agent)
        if self._agent is not None and self._shared:
            blocks += [block for block in await self._of(None) if block.label in self._shared]
            # A shared block hides the agent's own block with the same label.
            blocks = [block for block in blocks if (block.agent is None) is (block.label in self._shared)]
        return tuple(sorted(blocks, key=lambda block: block.label))

    async def read(self, label: str, /) -> MemoryBlock:
        """Return a block. Raises NotFound."""
        return _block_of(await self._item(label), self._owner(label))

    async def create(self, draft: BlockDraft, /, *, by: BlockAuthor = BlockAuthor.HOST) -> MemoryBlock:
        """Store a new block. Raises PreconditionFailed if its label exists, LimitExceeded.

        Raises PermissionRefused for a model's text that must not be learned.
        """
        await self._admit(draft.label, "", draft.value, limit=draft.limit, by=by)
        blocks = await self.list()
        # A duplicate label is rejected below with its own error.
        if len(blocks) >= limits.BLOCKS and all(block.label != draft.label for block in blocks):
            raise LimitExceeded(what="blocks per owner", limit=limits.BLOCKS, found=limits.BLOCKS + 1)
        stored_block = _StoredBlock(
            value=draft.value, description=draft.description, limit=draft.limit, read_only=draft.read_only
        )
        return await self._put(draft.label, stored_block, expected=0)

    async def create_missing(self, drafts: Sequence[BlockDraft] = DEFAULTS, /) -> None:
        """Create those of `drafts` that do not exist."""
        for draft in drafts:
            try:
                await self.create(draft)
            except PreconditionFailed:
                continue

    async def edit(
        self,
        label: str,
        change: Edit,
        /,
        *,
        expected_version: int | None = None,
        call: str = "",
        by: BlockAuthor = BlockAuthor.HOST,
    ) -> MemoryBlock:
        """Apply `change` to a block's text and store the result. A `call` that already edited it changes nothing.

        Raises NotFound, LimitExceeded, PermissionRefused if the block is read-only or a model's text must not be
        learned, and PreconditionFailed if its version is not the expected one or changed meanwhile.
        """
        block_record = await self._item(label)
        stored_block = _stored_of(block_record)
        if call and call in stored_block.calls:
            return _block_of(block_record, self._owner(label))
        if stored_block.read_only:
            raise PermissionRefused("this block is read-only: nothing was changed")
        if expected_version is not None and block_record.version != expected_version:
            raise PreconditionFailed
        new_value = change(stored_block.value)
        await self._admit(label, stored_block.value, new_value, limit=stored_block.limit, by=by)
        recent_calls = (*stored_block.calls, call)[-limits.BLOCK_CALLS :] if call else stored_block.calls
        new_block = stored_block.model_copy(update={"value": new_value, "calls": recent_calls})
        return await self._put(label, new_block, expected=block_record.version)

    async def change(
        self,
        label: str,
        /,
        *,
        value: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        expected_version: int | None = None,
    ) -> MemoryBlock:
        """Change the settings or the text of a block for the host, even if it is read-only.

        Raises as `edit` does, and InvalidInput.
        """
        block_record = await self._item(label)
        if expected_version is not None and block_record.version != expected_version:
            raise PreconditionFailed
        requested_changes: dict[str, Any] = {
            "value": value,
            "description": description,
            "limit": limit,
            "read_only": read_only,
        }
        stored_block = _stored_of(block_record)
        fields: dict[str, Any] = stored_block.model_dump(exclude={"calls"})
        draft = BlockDraft(
            label=label,
            **fields | {name: new_value for name, new_value in requested_changes.items() if new_value is not None},
        )
        _require_room(draft.value, draft.limit)
        new_block = stored_block.model_copy(update=draft.model_dump(exclude={"label"}))
        return await self._put(label, new_block, expected=block_record.version)

    async def delete(self, label: str, /, *, expected_version: int | None = None) -> bool:
        """Delete a block and return whether it existed. Raises PermissionRefused, PreconditionFailed."""
        try:
            block_record = await self._item(label)
        except NotFound:
            return False
        if _stored_of(block_record).read_only:
            raise PermissionRefused("this block is read-only: nothing was changed")
        required_version = block_record.version if expected_version is None else expected_version
        report = await self._memory.delete_record(self._namespace(label), label, expected_version=required_version)
        return report.changed

    async def _admit(self, label: str, before: str, after: str, *, limit: int, by: BlockAuthor) -> None:
        _require_room(after, limit)
        if by is BlockAuthor.MODEL:
            refusal = await learning_refusal(self._memory, before, after, label=label)
            if refusal is not None:
                raise PermissionRefused(refusal)

    def _owner(self, label: str) -> str | None:
        return None if label in self._shared else self._agent

    def _namespace(self, label: str) -> tuple[str, ...]:
        return namespace_of(self._owner(label))

    async def _of(self, agent: str | None) -> "list[MemoryBlock]":
        report = await self._memory.search_records(namespace_of(agent), limit=limits.BLOCKS)
        return [_block_of(block_record, agent) for block_record in report.items]

    async def _item(self, label: str) -> RecordItem:
        try:
            return (await self._memory.get_record(self._namespace(label), label)).record
        except InvalidInput as error:
            if error.field in {"key", "namespace"}:  # An invalid name cannot be the name of a block.
                raise NotFound(what="block", name=label) from None
            raise
        except NotFound:
            raise NotFound(what="block", name=label) from None

    async def _put(self, label: str, stored: _StoredBlock, *, expected: int) -> MemoryBlock:
        block_fields: Any = stored.model_dump(mode="json", exclude_defaults=True) | {"value": stored.value}
        report = await self._memory.put_record(self._namespace(label), label, block_fields, expected_version=expected)
        return _block_of(report.record, self._owner(label))


def namespace_of(agent: str | None, /) -> tuple[str, ...]:
    """Return the namespace of an agent's own blocks, or of the shared blocks for None."""
    return _SHARED if agent is None else (*_OWN, agent)


def _stored_of(item: RecordItem) -> _StoredBlock:
    return _StoredBlock.model_validate(item.value)


def _block_of(item: RecordItem, agent: str | None) -> MemoryBlock:
    stored_fields = _stored_of(item).model_dump(exclude={"calls"})
    return MemoryBlock(label=item.key, agent=agent, version=item.version, updated_at=item.updated_at, **stored_fields)


def _require_room(value: str, limit: int) -> None:
    if len(value) > limit:
        raise LimitExceeded(what="characters in the block", limit=limit, found=len(value))


_BLOCKS: Final = FenceTag.BLOCKS.value
_BLOCK: Final = FenceTag.BLOCK.value


def text_of(blocks: Iterable[MemoryBlock], /) -> str:
    """Return blocks in their system-prompt form, or "" if there are none."""
    shown_blocks = [_shown_block(block) for block in blocks]
    return "\n".join((f"<{_BLOCKS}>", *shown_blocks, f"</{_BLOCKS}>")) if shown_blocks else ""


def _shown_block(block: MemoryBlock) -> str:
    label = label_of(block.label).replace('"', "'")
    description_attribute = f' description="{_quote_text(block.description)}"' if block.description else ""
    read_only_attribute = ' read_only="true"' if block.read_only else ""
    opening_tag = (
        f'<{_BLOCK} label="{label}"{description_attribute}'
        f' chars="{len(block.value)}/{block.limit}"{read_only_attribute}>'
    )
    return "\n".join((opening_tag, *_lines_of(block.value), f"</{_BLOCK}>"))


def _quote_text(text: str) -> str:
    return escape_line(text).replace('"', "'")


def _lines_of(text: str) -> list[str]:
    """Return the lines of a block, escaped so that none opens or closes a fence of blocks or of a host's template."""
    return [escape_line(line) for line in text.split("\n")] if text else []
