"""Conversion of an archive to COGX, the exchange format between memories, in a folder of its own."""

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

from elytron.importers.memories import cogx
from elytron.transfer.archive import ArchiveReader
from elytron_core.clock import Instant, format_instant
from elytron_core.errors import InvalidInput, StoreUnavailable
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.model import Value
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.facts import Fact, FactPrivacy
from elytron_core.planes.skills import Skill
from elytron_core.planes.transcript import Turn
from elytron_core.ports.store import Document
from elytron_core.strict_json import Json
from elytron_store.private_files import private_opener

SYSTEM: Final = "elytron"
EPISODE_TURNS: Final = 400
"""Turns of a conversation in one episode. Episodes begin at fixed places, so that a later export has the same ones."""
_SPOKEN_ROLES: Final = frozenset({EvidenceRole.USER, EvidenceRole.ASSISTANT})
_IMPORTED: Final = frozenset({EvidenceAuthority.ARCHIVE_EVIDENCE, EvidenceAuthority.EXTERNAL_CONTENT})


class CogxExportReport(Value):
    """What a COGX folder holds: records by kind, and what of the archive is not in it, by reason."""

    space: str
    path: str
    records: dict[str, int]
    left_out: dict[str, int] = {}


def write_cogx(archive: Path, folder: Path, /, *, at: Instant, overwrite: bool = False) -> CogxExportReport:
    """Convert the archive file `archive` to a COGX folder, which is made; `overwrite` replaces an earlier one's files.

    Turns become episodes, facts and procedures records of their own, and what was imported from another memory keeps
    its system and id. Since COGX has no mark for what is private, hidden or wrong, that is left out and counted.
    Raises UnreadableFile, InvalidInput.
    """
    with ArchiveReader(archive) as reader, _CogxWriter(folder, overwrite=overwrite) as writer:
        for document in reader.documents():
            _write_document(writer, document)
        writer.finish(space=reader.manifest.space, at=at)
        return CogxExportReport(
            space=reader.manifest.space,
            path=str(folder),
            records=dict(sorted(writer.counts.items())),
            left_out=dict(sorted(writer.left_out.items())),
        )


@dataclass(slots=True)
class _EpisodeDraft:
    """Turns that go into one record: their conversation, and the place in it where they begin."""

    id: str
    turn: Turn
    turns: list[Json] = field(default_factory=list[Json])


class _CogxWriter:
    """Writes records, a file for each kind; nothing of an earlier export is left beside them."""

    def __init__(self, folder: Path, /, *, overwrite: bool) -> None:
        self._folder = folder
        self._overwrite = overwrite
        self._files: dict[str, IO[str]] = {}
        self._stack = ExitStack()
        self._episode: _EpisodeDraft | None = None
        self.counts: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()

    def __enter__(self) -> Self:
        names = {*cogx.RECORD_FILES.values(), cogx.MANIFEST}
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=self._overwrite)
            if any(path.name not in names for path in self._folder.iterdir()):
                problem = "holds other files: name a new folder"
                raise InvalidInput(field=self._folder.name, problem=problem)
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise InvalidInput(field=self._folder.name, problem=f"is not a usable folder: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, kind: str, record: dict[str, Json], /) -> None:
        """Write one record."""
        name = cogx.RECORD_FILES[kind]
        if name not in self._files:
            self._files[name] = self._stack.enter_context(self._open(name))
        line = {"kind": kind} | {key: value for key, value in record.items() if value is not None}
        try:
            self._files[name].write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            raise StoreUnavailable(f"cannot write {name!r}: {error.strerror}") from error
        self.counts[kind] += 1

    def add_turn(self, key: str, turn: Turn, messages: list[Json], /) -> None:
        """Add a turn to its episode; turns come in the order of their conversations."""
        tag = transcript.tag_of(transcript.TurnId(key))
        episode_id = f"{tag}.{turn.sequence // EPISODE_TURNS}"
        if self._episode is None or self._episode.id != episode_id:
            self.end_episode()
            self._episode = _EpisodeDraft(episode_id, turn)
        self._episode.turns += messages

    def end_episode(self) -> None:
        """Write the episode that is being collected."""
        if (episode := self._episode) is not None:
            turn = episode.turn
            metadata: Json = {"channel": turn.channel, "conversation": turn.conversation}
            record = _record_base(SYSTEM, episode.id, turn.recorded_at, metadata)
            episode_fields: dict[str, Json] = {"title": turn.conversation, "turns": episode.turns}
            self.add("episode", record | episode_fields)
        self._episode = None

    def finish(self, *, space: str, at: Instant) -> None:
        """Write the manifest, without which the folder is none."""
        self.end_episode()
        notes: Json = [f"left out: {count} {reason}" for reason, count in sorted(self.left_out.items())]
        manifest = {
            "cogx_version": cogx.VERSION,
            "source_system": SYSTEM,
            "exported_at": format_instant(at),
            "counts": dict(sorted(self.counts.items())),
            "notes": [f"space: {space}", *notes],
        }
        with self._open(cogx.MANIFEST) as file:
            file.write(json.dumps(manifest, ensure_ascii=False, indent=2) + "\n")

    def _open(self, name: str) -> IO[str]:
        return open(self._folder / name, "x", encoding="utf-8", opener=private_opener)


def _record_base(system: str, own_id: str, recorded_at: Instant, metadata: Json) -> dict[str, Json]:
    created_at = format_instant(recorded_at)
    return {"external_system": system, "external_id": own_id, "created_at": created_at, "metadata": metadata}


def _write_document(writer: _CogxWriter, document: Document) -> None:
    match document.ref.collection:
        case transcript.TURNS:
            _write_turn(writer, document.ref.key, Turn.from_bytes(document.body))
        case facts.FACTS:
            _write_fact(writer, Fact.from_bytes(document.body))
        case skills.SKILLS:
            _write_skill(writer, Skill.from_bytes(document.body))
        case _:
            return


def _write_turn(writer: _CogxWriter, key: str, turn: Turn) -> None:
    if turn.is_private:
        writer.left_out["private turns"] += 1
        return
    messages: list[Json] = []
    for part, message in enumerate(turn.messages):
        if not turn.is_kept(part) or not message.text:
            writer.left_out["hidden messages"] += 1
        elif (foreign_record := _foreign_record(turn, part)) is not None:
            writer.add("memory", foreign_record)
        elif message.role in _SPOKEN_ROLES:
            said_at = format_instant(transcript.said_at(turn, message))
            identity_fields: dict[str, Json] = {
                "id": transcript.message_id(transcript.TurnId(key), part),
                "occurred_at": said_at,
            }
            content_fields: dict[str, Json] = {"role": message.role.value, "content": message.text}
            messages.append(
                content_fields | identity_fields | ({"speaker": message.speaker} if message.speaker else {})
            )
        else:
            writer.left_out[f"{message.role.value} messages"] += 1
    if messages:
        writer.add_turn(key, turn, messages)


def _foreign_record(turn: Turn, part: int) -> dict[str, Json] | None:
    """Return a memory that was imported from another system, as that system's; None for anything else."""
    message = turn.messages[part]
    provider_name = turn.source.provider if turn.source is not None else None
    is_foreign = turn.origin is transcript.TurnOrigin.IMPORTED and message.authority in _IMPORTED
    if (
        not is_foreign
        or provider_name is None
        or turn.host_id is None
        or not turn.host_id.startswith(f"{provider_name}:")
    ):
        return None
    metadata: Json = {name.removeprefix(f"{provider_name}."): value for name, value in turn.metadata.items()}
    record = _record_base(
        provider_name, turn.host_id.removeprefix(f"{provider_name}:"), transcript.said_at(turn, message), metadata
    )
    categories: list[Json] = [*turn.tags]
    content_fields: dict[str, Json] = {"content": message.text, "categories": categories}
    return record | content_fields


def _write_fact(writer: _CogxWriter, fact: Fact) -> None:
    if fact.privacy is FactPrivacy.PRIVATE:
        writer.left_out["private facts"] += 1
        return
    if not fact.is_believed:
        writer.left_out["facts that are not believed"] += 1
        return
    metadata: Json = {"authority": fact.authority.value, "topic": fact.topic, "fact_kind": fact.kind.value}
    citations: list[Json] = [*fact.citations]
    fact_fields: dict[str, Json] = {
        "subject_ref": fact.entities[0] if fact.entities else "user",
        "predicate": fact.topic,
        "object_ref": fact.content,
        "fact_text": f"{fact.topic}: {fact.content}",
        "valid_at": _time_text(fact.valid_from if fact.valid_from is not None else fact.observed_at),
        "invalid_at": _time_text(fact.valid_to),
        "confidence": fact.certainty,
        "provenance": citations,
    }
    writer.add("fact", _record_base(SYSTEM, fact.id, fact.recorded_at, metadata) | fact_fields)


def _time_text(at: Instant | None) -> str | None:
    return format_instant(at) if at is not None else None


def _write_skill(writer: _CogxWriter, skill: Skill) -> None:
    if not skill.is_recallable:
        writer.left_out["skills that are not in use"] += 1
        return
    metadata: Json = {"topic": skill.topic, "kind": "procedure"}
    text = "\n\n".join(filter(None, (skill.summary, skill.procedure)))
    record = _record_base(SYSTEM, skill.name, skill.updated_at, metadata)
    writer.add("document", record | {"title": skill.title, "content": text})
