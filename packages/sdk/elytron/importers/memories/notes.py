"""Folders of Markdown notes: Obsidian vaults, written by a person, and basic-memory, written by assistants."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from elytron.importers import formats, message_shape
from elytron.importers.bundles import BundleMember, FileBundle
from elytron.importers.memories import foreign_memory
from elytron.importers.memories.foreign_memory import ForeignMemory
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.ids import is_name
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, mend_surrogates, sha256_digest
from elytron_core.text import similarity

OBSIDIAN: Final = "obsidian"
BASIC_MEMORY: Final = "basic-memory"
_SUFFIXES: Final = (".md", ".markdown")
_NOTE_BYTES: Final = 8 * 1024 * 1024
_DIGITS: Final = 24
_HEAD: Final = re.compile(r"\A---\n(?P<fields>.{0,20000}?)\n---(?:\n|\Z)", re.DOTALL)
_FIELD: Final = re.compile(r"(?P<name>[\w-]{1,60}):[ \t]*(?P<value>[^\n]{0,2000})")
_ENTRY: Final = re.compile(r"[ \t]*-[ \t]+(?P<value>[^\n]{1,500})")
_LINK: Final = re.compile(r"(!?)\[\[([^\[\]|\n]{1,500})(?:\|([^\[\]\n]{1,500}))?\]\]")
_EMBED: Final = re.compile(r"!\[\[[^\[\]|#\n]{1,500}\.(?!md\b|markdown\b)[A-Za-z0-9]{1,8}(?:[|#][^\[\]\n]{0,500})?\]\]")
"""An image or another file that is shown in a note. Embedded notes have no suffix."""
_TAG: Final = re.compile(r"(?:^|(?<=\s))#([\w/-]{1,100})(?=\s|$)")
_OBSERVATION: Final = re.compile(r"[-*] \[(?P<category>[^\[\]\n]{2,60})\] (?P<words>[^\n]{1,4000})")
_RELATION: Final = re.compile(
    r"[-*] (?P<relation>[^\[\n]{1,100}?)[ \t]*\[\[(?P<target>[^\[\]|\n]{1,200})\]\][^\n]{0,500}"
)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MADE_FIELDS: Final = ("created", "created_at", "date")
_CHANGED_FIELDS: Final = ("modified", "updated", "updated_at")


class NoteFile(NamedTuple):
    """A note: its name in the folder, its front matter fields, tags and text."""

    name: str
    fields: dict[str, str]
    tags: tuple[str, ...]
    body: str

    @property
    def title(self) -> str:
        """Return the note's title, or its file name."""
        return self.fields.get("title") or PurePosixPath(self.name).stem


def is_vault(bundle: FileBundle, /) -> bool:
    """Return whether a bundle is an Obsidian vault."""
    return bundle.is_vault and bool(bundle.ending(*_SUFFIXES))


def is_basic_memory(bundle: FileBundle, /) -> bool:
    """Return whether one of a bundle's first notes is from basic-memory."""
    for member in bundle.ending(*_SUFFIXES)[:20]:
        try:
            note = _read_note(member)
        except (UnreadableFile, InvalidInput):
            continue
        if "permalink" in note.fields and "type" in note.fields:
            return True
    return False


def _read_note(member: BundleMember) -> NoteFile:
    file, size = member.open()
    with file:
        data = file.read(_NOTE_BYTES + 1)
    if size > _NOTE_BYTES:
        raise InvalidInput(field="note", problem=f"is larger than {_NOTE_BYTES} bytes")
    try:
        text = mend_surrogates(message_shape.strip_mark(data)).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise InvalidInput(field="note", problem="is not UTF-8") from None
    head = _HEAD.match(text)
    if head is None:
        return NoteFile(member.name, {}, (), text)
    fields, tags = _front_matter(head["fields"])
    return NoteFile(member.name, fields, tags, text[head.end() :])


def _front_matter(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the scalar fields of front matter, and its tags, listed on one line or one per line."""
    fields: dict[str, str] = {}
    tags: list[str] = []
    name = ""
    for line in text.split("\n"):
        if (entry := _ENTRY.fullmatch(line)) and name in {"tags", "tag"}:
            tags.append(entry["value"])
        elif field := _FIELD.fullmatch(line):
            name, value = field["name"].casefold(), field["value"].strip().strip("\"'")
            if name in {"tags", "tag"}:
                tags += value.strip("[]").split(",")
            elif value:
                fields[name] = value
    plain = (tag.strip().strip("\"'#") for tag in tags)
    return fields, tuple(dict.fromkeys(tag for tag in plain if is_name(tag)))[: limits.TAGS]


def _note_files(bundle: FileBundle, place: ReaderPlace) -> Iterator[NoteFile | SkippedRecord]:
    members = bundle.ending(*_SUFFIXES)
    for number, member in enumerate(members):
        place.now(member.name, number / len(members))
        try:
            yield _read_note(member)
        except (UnreadableFile, InvalidInput, LimitExceeded) as error:
            yield SkippedRecord(member.name, error.message)


def _moment_of(note: NoteFile, names: tuple[str, ...], place: ReaderPlace) -> Instant | None:
    """Return the first valid time under `names`, else the date that names a daily note.

    A malformed date does not discard the note; it is reported if no other is valid.
    """
    malformed: list[str] = []
    values = [(name, note.fields[name]) for name in names if note.fields.get(name)]
    stem = PurePosixPath(note.name).stem
    for name, value in [*values, *([("name", stem)] if _DAY.fullmatch(stem) else [])]:
        try:
            return place.moment(value, what=name)
        except InvalidInput:
            malformed.append(name)
    for name in malformed:
        place.words = note.name
        place.note_unread_time(name)
    return None


def read_vault(bundle: FileBundle, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each note's sections as written by the owner, with links and embeds as plain text."""
    for note in _note_files(bundle, place):
        if isinstance(note, SkippedRecord):
            yield note
            continue
        key = ConversationKey(OBSIDIAN, _note_key(note.name))
        at = _moment_of(note, (*_CHANGED_FIELDS, *_MADE_FIELDS), place)
        tags = tuple(dict.fromkeys((*note.tags, *_TAG.findall(note.body[:100_000]))))[: limits.TAGS]
        yield from _section_items(note, key, at, tags, place)


def _section_items(
    note: NoteFile, key: ConversationKey, at: Instant | None, tags: tuple[str, ...], place: ReaderPlace
) -> Iterator[ReadItem]:
    headings: Counter[str] = Counter()
    is_empty = True
    for position, piece in enumerate(formats.markdown_pieces(note.body), start=1):
        place.words = f"{note.name}, section {position}"
        heading = piece.partition("\n")[0] if piece.startswith("#") else ""
        headings[heading] += 1
        own = sha256_digest(f"{note.name}\n{heading}\n{headings[heading]}".encode("utf-8", "replace"))[:_DIGITS]
        text, embeds = _EMBED.subn("", piece)
        if embeds:
            yield LeftOut(OmissionReason.ATTACHMENT, embeds)
        if similarity.is_blank(text):
            continue
        draft = place.attempt(message_shape.message_turn, plain_links(text), at=at, own_id=own)
        is_empty = False
        if isinstance(draft, TurnDraft):
            draft = draft.model_copy(update={"tags": tags, "metadata": {"note": note.name[: limits.NAME_CHARS]}})
            yield place.make_message(key, draft, title=message_shape.optional_title(note.title))
        else:
            yield draft
    if is_empty:
        yield LeftOut(OmissionReason.NO_WORDS)


def _note_key(name: str) -> str:
    """Return a note's conversation: its name without the suffix, or a digest if that is not a valid name."""
    stem = str(PurePosixPath(name).with_suffix(""))
    return stem if is_name(stem) else f"note-{sha256_digest(name.encode('utf-8', 'replace'))[:_DIGITS]}"


def plain_links(text: str, /) -> str:
    """Replace wiki links by their visible text."""

    def label_of(link: re.Match[str]) -> str:
        return link[3] or link[2].replace("#", " ").strip()

    return _LINK.sub(label_of, text)


def read_basic_memory(bundle: FileBundle, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield observations, relations and the remaining text of notes, as memories of the assistant."""
    for note in _note_files(bundle, place):
        if isinstance(note, SkippedRecord):
            yield note
        else:
            yield from _note_memories(note, place)


def _note_memories(note: NoteFile, place: ReaderPlace) -> Iterator[ReadItem]:
    at = _moment_of(note, (*_CHANGED_FIELDS, *_MADE_FIELDS), place)
    rest: list[str] = []
    sentences: list[tuple[str, tuple[str, ...]]] = []
    for line in note.body.split("\n"):
        if observation := _OBSERVATION.fullmatch(line.strip()):
            words, tags = plain_links(observation["words"]), tuple(_TAG.findall(observation["words"]))
            sentences.append(
                (f"{note.title}: {' '.join(_TAG.sub('', words).split())}", (observation["category"], *tags))
            )
        elif relation := _RELATION.fullmatch(line.strip()):
            name = relation["relation"].strip().replace("_", " ")
            sentences.append((f"{note.title} {name} {relation['target']}", ()))
        else:
            rest.append(line)
    sentences.extend((plain_links(piece), ()) for piece in formats.markdown_pieces("\n".join(rest)))
    for text, tags in dict(sentences).items():
        details: dict[str, Json] = {**note.fields, "note": note.name}
        memory = ForeignMemory(
            system=BASIC_MEMORY,
            id=foreign_memory.own_id({}, f"{note.fields.get('permalink') or note.name}\n{text}"),
            text=text,
            at=at,
            tags=tuple(dict.fromkeys((*note.tags, *tags))),
            details=details,
        )
        item = place.attempt(foreign_memory.memory_item, place, memory)
        yield item
