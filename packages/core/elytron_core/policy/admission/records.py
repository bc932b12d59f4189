"""Versions of a record: their order, and how many earlier ones are kept."""

from pydantic import JsonValue

from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.records import Namespace, Record, RecordVersion


def put_record(
    known: Record | None,
    /,
    *,
    namespace: Namespace,
    key: str,
    value: JsonValue,
    text: str,
    privacy: FactPrivacy,
    expires_at: Instant | None,
    at: Instant,
) -> Record:
    """Return the record after this put; `known` itself if it says the same already.

    Versions go on after a deletion and after an expiry, so that no version number has two meanings. What has expired
    leaves nothing in the history.
    """
    made = Record(
        namespace=namespace,
        key=key,
        value=value,
        text=text,
        privacy=privacy,
        created_at=at,
        updated_at=at,
        expires_at=expires_at,
    )
    if known is None:
        return made
    if known.is_expired(at):
        return made.model_copy(update={"version": known.version + 1})
    if known.is_alive(at) and _record_content(known) == _record_content(made):
        return known
    followed = {"version": known.version + 1, "earlier": _extend_history(known)}
    return made.model_copy(update=followed | ({"created_at": known.created_at} if known.is_alive(at) else {}))


def delete_record(known: Record, /, *, at: Instant) -> Record:
    """Return the record deleted at `at`; its value stays in the history until it is erased."""
    return known.model_copy(
        update={
            "version": known.version + 1,
            "updated_at": at,
            "forgotten_at": at,
            "deleted": True,
            "earlier": _extend_history(known),
        }
    )


def shown_again(known: Record, /) -> Record:
    """Return the record as `forget` with `undo` brings it back; after a deletion that is a version of its own."""
    if not known.deleted:
        return known.model_copy(update={"forgotten_at": None})
    again = {"version": known.version + 1, "forgotten_at": None, "deleted": False, "earlier": _extend_history(known)}
    return known.model_copy(update=again)


def succeed_record(brought: Record, known: Record, /) -> Record:
    """Return a record of an archive with a version after that of a `known` one of its name."""
    return brought.model_copy(update={"version": max(brought.version, known.version + 1)})


def record_history(record: Record, /) -> tuple[RecordVersion, ...]:
    """Return the versions that are kept, oldest first."""
    return (*record.earlier, _record_version(record))


def _record_content(record: Record) -> tuple[bytes, str, FactPrivacy, Instant | None]:
    # Compared as JSON: in Python 1, 1.0 and True are equal.
    return strict_json.canonical_bytes(record.value), record.text, record.privacy, record.expires_at


def _record_version(record: Record) -> RecordVersion:
    if record.deleted:
        return RecordVersion(version=record.version, at=record.updated_at, deleted=True)
    return RecordVersion(version=record.version, at=record.updated_at, value=record.value, text=record.text)


def _extend_history(record: Record) -> tuple[RecordVersion, ...]:
    """Return the earlier versions with that of `record`; beyond the bounds the oldest go."""
    kept: list[RecordVersion] = []
    size = 0
    for version in reversed(record_history(record)[-limits.RECORD_VERSIONS :]):
        size += len(version.to_bytes())
        if size > limits.RECORD_HISTORY_BYTES:
            break
        kept.append(version)
    return tuple(reversed(kept))
