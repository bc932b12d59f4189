"""Bytes of other programs in records: what is larger than one record is in several, which are committed together."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from elytron.runtime_records import RecordDraft
from elytron_core.errors import LimitExceeded
from elytron_core.planes.records import Record

OPAQUE_BYTES: Final = 64 * 1024 * 1024
"""The largest value."""
_PART_BYTES: Final = 150_000
"""Bytes in one record, which may have 256 KiB as JSON."""


def part_drafts(place: tuple[str, ...], key: str, fields: Mapping[str, Any], data: bytes, /) -> list[RecordDraft]:
    """Return the records of a value, numbered from `key`.0, of which the first has `fields`. Raises LimitExceeded."""
    if len(data) > OPAQUE_BYTES:
        raise LimitExceeded(what="bytes in a value of a framework", limit=OPAQUE_BYTES, found=len(data))
    offsets = range(0, max(len(data), 1), _PART_BYTES)
    texts = [base64.b64encode(data[offset : offset + _PART_BYTES]).decode() for offset in offsets]
    values: list[dict[str, Any]] = [{"data": text} for text in texts]
    values[0] = {**fields, "parts": len(texts), "data": texts[0]}
    return [RecordDraft(place, f"{key}.{number}", value, is_opaque=True) for number, value in enumerate(values)]


def part_number(record: Record, /) -> tuple[str, int]:
    """Return the key of a value, and which of its records this is."""
    key, _, number = record.key.rpartition(".")
    return key, int(number)


def joined_data(parts: Mapping[int, Mapping[str, Any]] | Sequence[Mapping[str, Any]], /) -> bytes:
    """Return the bytes of a value; further records of an earlier, longer one are left out."""
    return b"".join(base64.b64decode(parts[number]["data"]) for number in range(parts[0]["parts"]))


def fields_of(record: Record, /) -> dict[str, Any]:
    """Return the fields of a record's value."""
    return cast("dict[str, Any]", record.value)
