"""Intake of a request's texts: the one path for every operation that brings text in."""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from functools import cache, wraps
from typing import Final, NamedTuple, TypeVar, cast

from elytron.context import OperationContext
from elytron.indexing.checkpoints import CHECKPOINT
from elytron.journal.compaction import compact_space
from elytron_core import limits, strict_json
from elytron_core.contracts.maintenance.maintenance import MemoryFinalizeTurnRequest
from elytron_core.contracts.transcript import (
    CanonicalTurnDelta,
    MemoryTranscriptCommitRequest,
    MemoryWriteRequest,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import InvalidInput, InvalidJson, LimitExceeded, PayloadTooLarge, Unsupported
from elytron_core.model import Value
from elytron_core.planes.candidates import CandidateDraft
from elytron_core.planes.space import COLLECTIONS
from elytron_core.planes.transcript import Message, OpaqueItem
from elytron_core.policy.admission.claimed_times import claimed_times, future_claims
from elytron_core.policy.admission.own_output import strip_own_output
from elytron_core.policy.platform.profiles import EMBEDDED_SDK, EMBEDDED_STANDALONE
from elytron_core.policy.redaction import scrub_secrets
from elytron_core.ports.store import Store
from elytron_core.profiles import HostProfile, StoreCapacity
from elytron_core.scope import ClipReason, FutureClaims, OpaqueId, ReportClip
from elytron_store.wrappers.capacity import CapacityStore

claims_logger = logging.getLogger(__name__)

OWN_OUTPUT: Final = "recalled_memory"
RECALLED: Final = "[recalled memory]"
"""Replaces a label that contained only this memory's own output."""
ROOM: Final = 100
"""Limit of every text in characters: a redacted one may grow up to it."""
OPAQUE: Final = frozenset(
    (
        *(
            "scope",
            "id",
            "ids",
            "token",
            "expected_version",
            "undo",
            "path",
            "cursor",
            "key",
            "idempotency_key",
            "whole_space",
            "turn_id",
            "turn_ids",
        ),
        *("host_id", "candidate_ids", "request_id", "observation_id", "source_chat_id", "registry_id", "registry_ref"),
        *("namespace", "scope_id", "tool_id", "version", "schema_fingerprint", "descriptor_fingerprint", "fingerprint"),
        *("host_kind", "business_ref_type", "business_ref_id", "speaker_id", "subject_id", "actor_subject_id"),
        *("mounted_subject_id", "agent_id", "triggered_by", "token"),
    )
)
"""Fields of ids, stored as given: two that differ must stay different. Do not put credentials in them."""
VERIFIED: Final = frozenset(("snapshot",))
"""Fields whose fingerprint is compared first; their operation redacts them afterwards."""
_DATA: Final = re.compile("[A-Za-z0-9+/_-]{1024,}")
"""Base64 of more bytes than a credential has."""
_DATA_HEAD: Final = 16
_LONG_CHARS: Final = 1 << 17
"""Messages longer than this together are searched in a thread, so that other tasks run."""

ValueT = TypeVar("ValueT", bound=Value)


class OwnOutput(Enum):
    """Treatment of this memory's own output in a text."""

    STRIP = auto()
    """Other text next to it is stored: a turn is never rejected because of a block that a model was shown."""
    REFUSE = auto()
    """The same, but a text with nothing else is rejected."""
    KEEP = auto()
    """Judged later, with a reason in the report."""


_NUMBERS: Final = (int, float)
_TURNS: Final = (
    TranscriptWrite,
    TurnDraft,
    CanonicalTurnDelta,
    MemoryTranscriptCommitRequest,
    MemoryFinalizeTurnRequest,
)


class ScrubFindings(NamedTuple):
    """Findings by kind, and the length of the longest text as given."""

    counts: dict[str, int]
    longest: int


class _FoundSecrets:
    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.longest = 0

    def strip(self, text: str, /) -> str:
        """Return `text` without memory blocks, and count them."""
        stripped_text = strip_own_output(text)
        if stripped_text.blocks:
            self.kinds[OWN_OUTPUT] += stripped_text.blocks
        return stripped_text.text


async def scrub_request(request: ValueT, /, *, own: OwnOutput = OwnOutput.REFUSE) -> tuple[ValueT, ScrubFindings]:
    """Return `request` without the secrets that `policy.secrets` recognises and without memory's own output.

    Raises InvalidInput for a text of nothing but own output that is neither part of a turn nor judged as a candidate.
    """
    if _said_chars(request) > _LONG_CHARS:
        return await asyncio.to_thread(scrub_value, request, own=own)
    return scrub_value(request, own=own)


def scrub_value(value: ValueT, /, *, own: OwnOutput = OwnOutput.REFUSE) -> tuple[ValueT, ScrubFindings]:
    """Return `value` with every text in it redacted; the same object if nothing was found."""
    findings = _FoundSecrets()
    scrubbed_value = _scrub_value(value, findings, own)
    return scrubbed_value, ScrubFindings(dict(sorted(findings.kinds.items())), findings.longest)


def _said_chars(request: Value) -> int:
    match request:
        case TranscriptWrite(turns=turns) | MemoryWriteRequest(write=TranscriptWrite(turns=turns)):
            return sum(len(message.text) for turn in turns for message in turn.messages)
        case MemoryTranscriptCommitRequest(delta=delta) | MemoryFinalizeTurnRequest(delta=delta):
            return sum(len(message.text) for message in delta.messages)
        case _:
            return 0


def _scrub_value(value: ValueT, findings: _FoundSecrets, own: OwnOutput) -> ValueT:
    if isinstance(value, _TURNS):
        own = OwnOutput.STRIP
    elif isinstance(value, CandidateDraft):
        own = OwnOutput.KEEP
    changed_fields: dict[str, object] = {}
    for name in _text_fields(type(value)):
        field_value: object = getattr(value, name)
        if field_value is None or isinstance(field_value, _NUMBERS):
            continue
        is_json = name == "body" and isinstance(value, OpaqueItem)
        scrubbed_field = (
            _scrub_body(cast("str", field_value), findings)
            if is_json
            else _scrub_part(field_value, findings, own, name)
        )
        if scrubbed_field is not field_value:
            changed_fields[name] = scrubbed_field
    if isinstance(value, TurnDraft | CanonicalTurnDelta) and "items" in changed_fields:
        _require_room(cast("Sequence[OpaqueItem]", changed_fields["items"]))
    return value.model_copy(update=changed_fields) if changed_fields else value


@cache
def _text_fields(kind: type[Value]) -> tuple[str, ...]:
    """Return the fields of a form that may contain text: all but ids and verified data."""
    return tuple(
        name
        for name, field in kind.model_fields.items()
        if name not in OPAQUE
        and name not in VERIFIED
        and not any(isinstance(annotation, OpaqueId) for annotation in field.metadata)
    )


def _scrub_message(message: Message, findings: _FoundSecrets) -> Message:
    """Return the message itself if there is nothing to remove; a repeated block leaves no words."""
    findings.longest = max(findings.longest, len(message.text))
    text = _black_out(findings.strip(message.text), findings)
    speaker = message.speaker and _scrub_label(message.speaker, findings, OwnOutput.STRIP, "speaker")
    if text is message.text and speaker is message.speaker:
        return message
    return message.model_copy(update={"text": text, "speaker": speaker})


def scrub_json(body: str, /) -> str:
    """Return JSON text without own output and secrets, which is JSON again; the rest stays byte for byte."""
    return _scrub_body(body, _FoundSecrets())


def _scrub_body(body: str, findings: _FoundSecrets) -> str:
    findings.longest = max(findings.longest, len(body))
    if _DATA.search(body) is None:
        return _scrub_json_text(body, findings)
    data: list[str] = []
    mark = _unused_mark(body)

    def hide_data(run: re.Match[str]) -> str:
        data.append(run[0])
        return f"{run[0][:_DATA_HEAD]}{mark}{len(data) - 1}x"

    # Bytes in base64 look like credentials here and there, and would not be those bytes any more. A credential in their
    # place is recognised by its beginning.
    clean_body = _scrub_json_text(_DATA.sub(hide_data, body), findings)
    pattern = f".{{{_DATA_HEAD}}}{mark}([0-9]+)x"
    return re.sub(pattern, lambda match: data[int(match[1])], clean_body)


def _unused_mark(body: str) -> str:
    """Return letters that do not occur in `body`."""
    return "".join(chr(ord("g") + int(digit, 16)) for digit in strict_json.sha256_digest(body.encode())[:16])


def _scrub_json_text(body: str, findings: _FoundSecrets) -> str:
    if "\\" in body:
        # An escape such as that of a line break touches the word behind it, which hides a secret in the JSON.
        unescaped_findings = _FoundSecrets()
        value = _scrub_json_value(json.loads(body), unescaped_findings)
        if unescaped_findings.kinds:
            findings.kinds.update(unescaped_findings.kinds)
            body = json_text(value)
    body_findings = _FoundSecrets()
    scrubbed_body = _black_out(body_findings.strip(body), body_findings)
    try:
        if scrubbed_body is not body:
            strict_json.parse_json(scrubbed_body.encode())
    except (InvalidJson, PayloadTooLarge):
        # What was removed reached beyond the end of a value: clean each value and write the JSON again.
        body_findings = _FoundSecrets()
        scrubbed_body = json_text(_scrub_json_value(json.loads(body), body_findings))
    findings.kinds.update(body_findings.kinds)
    return scrubbed_body


def json_text(value: object, /) -> str:
    """Return a value as short JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, which JSON can only write as an escape
        return json.dumps(value, separators=(",", ":"))
    return text


def _scrub_json_value(value: object, findings: _FoundSecrets) -> object:
    match value:
        case str():
            return _black_out(findings.strip(value), findings)
        case int() | float():
            text = json.dumps(value)
            return value if (scrubbed_text := _black_out(text, findings)) is text else scrubbed_text
        case list():
            return [_scrub_json_value(each, findings) for each in cast("list[object]", value)]
        case dict():
            fields = cast("dict[str, object]", value).items()
            return {_black_out(name, findings): _scrub_json_value(each, findings) for name, each in fields}
        case _:
            return value


def _require_room(items: Sequence[OpaqueItem]) -> None:
    """Raise LimitExceeded for items that their marks have made larger than a turn may hold."""
    body_sizes = [len(item.body.encode()) for item in items]
    for byte_count, limit in (
        (max(body_sizes), limits.OPAQUE_ITEM_BYTES),
        (sum(body_sizes), limits.OPAQUE_ITEMS_BYTES),
    ):
        if byte_count > limit:
            raise LimitExceeded(what="bytes of redacted items", limit=limit, found=byte_count)


def _scrub_part(field_value: object, findings: _FoundSecrets, own: OwnOutput, name: str) -> object:
    if type(field_value) is str:  # an enum's member is one of a closed set
        findings.longest = max(findings.longest, len(field_value))
        return _scrub_label(field_value, findings, own, name)
    if isinstance(field_value, Message):
        return _scrub_message(field_value, findings)
    if isinstance(field_value, Value):
        return _scrub_value(field_value, findings, own)
    if isinstance(field_value, list):
        values = cast("list[object]", field_value)
        scrubbed_values = [_scrub_part(value, findings, own, name) for value in values]
        return scrubbed_values if scrubbed_values != values else values
    if isinstance(field_value, tuple):
        items = cast("tuple[object, ...]", field_value)
        scrubbed_items = tuple(_scrub_part(item, findings, own, name) for item in items)
        return (
            scrubbed_items
            if any(
                scrubbed_item is not original_item
                for scrubbed_item, original_item in zip(scrubbed_items, items, strict=True)
            )
            else items
        )
    return (
        _scrub_labels(cast("dict[object, object]", field_value), findings, own, name)
        if isinstance(field_value, dict)
        else field_value
    )


def _scrub_labels(
    labels: dict[object, object], findings: _FoundSecrets, own: OwnOutput, name: str
) -> dict[object, object]:
    scrubbed_labels = {
        _scrub_part(key, findings, own, name): _scrub_part(value, findings, own, name) for key, value in labels.items()
    }
    return scrubbed_labels if scrubbed_labels != labels else labels


def _scrub_label(text: str, findings: _FoundSecrets, own: OwnOutput, name: str) -> str:
    """Return `text` without own output and secrets, no longer than its kind allows, and never empty."""
    stripped_text = findings.strip(text) if own is not OwnOutput.KEEP else text
    if text and not stripped_text:
        if own is OwnOutput.REFUSE:
            raise InvalidInput(field=name, problem="contains nothing but recalled memory: pass new content")
        stripped_text = RECALLED
    scrubbed_text = _black_out(stripped_text, findings)
    # A mark may be longer than the secret it replaces, and the field has a limit.
    return scrubbed_text if scrubbed_text is text else scrubbed_text[: max(len(text), ROOM)].rstrip()


def _black_out(text: str, findings: _FoundSecrets) -> str:
    scrubbed_text = scrub_secrets(text)
    if not scrubbed_text.counts:
        return text
    findings.kinds.update(scrubbed_text.counts)
    return scrubbed_text.text


def capacity_of(profile: HostProfile, engine: str, /, *, is_kept: bool) -> StoreCapacity | None:
    """Return the capacity of a store of `engine` in `profile`; None if only its device limits it. Raises Unsupported.

    An embedded store is bounded in every profile: as a standalone device's if it is stored in a folder.
    """
    if profile.engines and engine not in profile.engines:
        way_out = ", ".join(f"{name}:" for name in profile.engines if name != "given")
        raise Unsupported(f"the profile {profile.name.value!r} does not support {engine} stores: use {way_out}")
    if profile.capacity is None and engine == "embedded":
        return EMBEDDED_STANDALONE if is_kept else EMBEDDED_SDK
    return profile.capacity


async def bound_store(store: Store, capacity: StoreCapacity | None, /) -> Store:
    """Return `store` bounded by `capacity`, if any; a store that cannot be counted is closed."""
    if capacity is None:
        return store
    try:
        return await CapacityStore.open(
            store, capacity, collections=COLLECTIONS, blobs=(CHECKPOINT,), compactor=compact_space
        )
    except BaseException:
        # A cancelled opening closes the store too.
        await store.close()
        raise


def require_chars(profile: HostProfile, longest_chars: int, /) -> None:
    """Raise LimitExceeded for a text longer than the profile allows; evidence is never cut silently."""
    chars_max = profile.budget.source_chars
    if profile.capacity is not None and longest_chars > chars_max:
        raise LimitExceeded(
            what=f"characters per text in profile {profile.name.value}", limit=chars_max, found=longest_chars
        )


def rendered_chars(profile: HostProfile, request_chars: int, /) -> tuple[int, tuple[ReportClip, ...]]:
    """Return a block's character limit, and what the profile cut from the requested one."""
    chars_max = min(request_chars, profile.budget.render_chars)
    clip = ReportClip(what="max_chars", reason=ClipReason.PROFILE, limit=chars_max, dropped=request_chars - chars_max)
    return chars_max, (clip,) if chars_max < request_chars else ()


def find_future_claims(ctx: OperationContext, value: Value, /, path: str = "") -> FutureClaims:
    """Return the future claimed times in `value`, which is at `path`; log them without content."""
    claims = list(claimed_times(value, path))
    # The clock is only read for a request that claims a time.
    claims_ahead = future_claims(claims, now=ctx.clock.now()) if claims else ()
    if claims_ahead:
        furthest_claim = max(claims_ahead, key=lambda claim: claim.claimed)
        summary = {
            "count": len(claims_ahead),
            "field": furthest_claim.field,
            "ahead_ms": furthest_claim.claimed - furthest_claim.now,
        }
        claims_logger.info("future_claims", extra={**summary, "principal": ctx.caller})
    return claims_ahead


RequestT = TypeVar("RequestT", bound=Value)
ReportT = TypeVar("ReportT", bound=Value)
Perform = Callable[[OperationContext, RequestT], Awaitable[ReportT]]


def admit_texts(operation: Perform[RequestT, ReportT], /) -> Perform[RequestT, ReportT]:
    """Return `operation` with the texts of its request redacted before it sees them.

    A report with a field `scrubbed` says what was found, one with `future_claims` which claimed times cannot be true.
    Raises InvalidInput for a text of only memory's own output outside turns and candidates, LimitExceeded for a text
    longer than the profile allows.
    """

    @wraps(operation)
    async def admit(ctx: OperationContext, request: RequestT, /) -> ReportT:
        scrubbed_request, scrub_findings = await scrub_request(request)
        require_chars(ctx.profile, scrub_findings.longest)
        claims_ahead = find_future_claims(ctx, request)
        report = await operation(ctx, scrubbed_request)
        notes = {"scrubbed": scrub_findings.counts, "future_claims": claims_ahead}
        report_update = {
            name: noted_value
            for name, noted_value in notes.items()
            if noted_value and name in type(report).model_fields
        }
        return report.model_copy(update=report_update) if report_update else report

    return admit
