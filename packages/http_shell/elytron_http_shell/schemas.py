"""JSON Schemas of the API description, kept compact and in forms that client generators understand.

Request fields with a default are optional. The default is given as `x-default` unless it is false, 0 or empty, because
generators treat `default` as required. Reports omit fields without a value, unless they are marked to send null;
requests may send null for them. Types that only reports contain have no bounds, allow extra fields, and mark fields
that always have a value. The compact description omits what generators ignore: bounds and null in requests, and words
that repeat an operation's summary.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

from elytron_core import limits
from elytron_core.ids import NAME_PATTERN

Json = dict[str, Any]

REF = "#/components/schemas/"
_NAME = "Name"
_CHAR = r"[^\u0000-\u0020\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
_PORTABLE = f"^{_CHAR}+(?: +{_CHAR}+)*$"
"""Like `NAME_PATTERN`, without Unicode classes, which few regular expression engines support."""
_NAME_SCHEMA: Json = {"type": "string", "minLength": 1, "maxLength": limits.NAME_CHARS, "pattern": _PORTABLE}
_WORDS = frozenset({"title", "description"})
_BOUNDS = frozenset(
    {
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "uniqueItems",
    }
)
_WITH_NULL = "x-with-null"
"""Marks a report that sends null for fields without a value, as the clients of another API expect."""
_MOST = 2**53
"""Larger bounds of numbers are left out, because few clients read them."""


def brief_schemas(
    schemas: Mapping[str, Json], /, *, requests: Iterable[Json], reports: Iterable[Json], is_whole: bool
) -> Json:
    """Return `schemas` for `requests` and `reports`, which refer to them; with limits and descriptions if it
    `is_whole`.

    A part of reports alone, or a plain value, that only one place refers to is inlined there.
    """
    bodies = [*requests]
    request_names = _reached_schemas(schemas, bodies)
    if not is_whole:
        schemas = {name: _nowhere_null(schema) for name, schema in schemas.items()}
    brief_by_name = {name: _brief_schema(schema, is_asked=name in request_names) for name, schema in schemas.items()}
    if not is_whole:
        brief_by_name = {name: _drop_bounds(schema) for name, schema in brief_by_name.items()}
    for name in _schema_references(bodies):
        if is_whole and (text := schemas[name].get("description")) is not None:
            brief_by_name[name]["description"] = _first_sentence(text)
    objects = {name for name in request_names if "properties" in brief_by_name[name] or "oneOf" in brief_by_name[name]}
    public_names = {*objects, *_schema_references(bodies), *_schema_references([*reports])}
    use_counts = Counter(_schema_references([*brief_by_name.values()]))
    inlined_schemas = {
        name: schema for name, schema in brief_by_name.items() if name not in public_names and use_counts[name] == 1
    }
    whole_schemas = {
        name: _inline_references(schema, inlined_schemas)
        for name, schema in brief_by_name.items()
        if name not in inlined_schemas
    }
    return {_NAME: _NAME_SCHEMA, **whole_schemas} if is_whole else whole_schemas


def _drop_bounds(value: Any) -> Any:
    match value:
        case {"$ref": str(ref)} if ref == f"{REF}{_NAME}":
            return {"type": "string"}
        case dict():
            schema_object = cast("Json", value)
            return {
                name: _drop_bounds(part)
                for name, part in schema_object.items()
                if name not in _BOUNDS or _is_field(part)
            }
        case list():
            return [_drop_bounds(part) for part in cast("list[Any]", value)]
        case _:
            return value


def _is_field(part: object) -> bool:
    """Return whether the holder of a bound's name is a field with that name: bounds are no schemas."""
    return isinstance(part, dict)


def _inline_references(value: Any, inlined_schemas: Mapping[str, Json]) -> Any:
    match value:
        case {"$ref": str(ref)} if (schema := inlined_schemas.get(ref.removeprefix(REF))) is not None:
            return _inline_references(schema, inlined_schemas)
        case dict():
            return {name: _inline_references(part, inlined_schemas) for name, part in cast("Json", value).items()}
        case list():
            return [_inline_references(part, inlined_schemas) for part in cast("list[Any]", value)]
        case _:
            return value


def _reached_schemas(schemas: Mapping[str, Json], start: object) -> set[str]:
    names: set[str] = set()
    pending_names = [*_schema_references(start)]
    while pending_names:
        name = pending_names.pop()
        if name not in names:
            names.add(name)
            pending_names += _schema_references(schemas[name])
    return names


def _schema_references(value: object) -> Iterator[str]:
    match value:
        case {"$ref": str(ref)}:
            yield ref.removeprefix(REF)
        case {"propertyName": str(), "mapping": dict()}:
            # A discriminator names its forms in plain strings, so a form named there cannot be inlined.
            for ref in cast("dict[str, str]", cast("Json", value)["mapping"]).values():
                yield ref.removeprefix(REF)
        case dict():
            for nested_value in cast("Json", value).values():
                yield from _schema_references(nested_value)
        case list() | tuple():
            for nested_value in cast("list[object]", value):
                yield from _schema_references(nested_value)
        case _:
            return


def _brief_schema(schema: Json, *, is_asked: bool, may_be_null: bool = False) -> Json:
    short_schema: Json = {}
    for name, value in (schema if is_asked or may_be_null else _without_null(schema)).items():
        if name == _WITH_NULL:
            continue
        is_bound = name in _BOUNDS or (name == "additionalProperties" and value is False)
        if name not in _WORDS and (is_asked or not is_bound):
            short_schema |= _schema_part(name, value, is_asked=is_asked, with_null=_WITH_NULL in schema)
    if not is_asked and (present_fields := _present_fields(schema)):
        short_schema["required"] = present_fields
    is_name_schema = _NAME_SCHEMA.items() <= short_schema.items() and short_schema.keys() - _NAME_SCHEMA.keys() <= {
        "x-default"
    }
    return {"$ref": f"{REF}{_NAME}"} if is_name_schema else short_schema


def _present_fields(report: Json) -> list[str]:
    """Return the fields that a report always has: those without a default, and those whose default is a value."""
    fields: dict[str, Json] = report.get("properties", {})
    if _WITH_NULL in report:
        return [*fields]
    required_names = report.get("required", ())
    return [name for name, field in fields.items() if name in required_names or field.get("default") is not None]


def _nowhere_null(value: Any) -> Any:
    match value:
        case dict():
            return {name: _nowhere_null(part) for name, part in _without_null(cast("Json", value)).items()}
        case list():
            return [_nowhere_null(part) for part in cast("list[Any]", value)]
        case _:
            return value


def _without_null(schema: Json) -> Json:
    """Return a schema of the same values except null."""
    non_null_forms = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
    other_keywords = {name: value for name, value in schema.items() if name != "anyOf"}
    match non_null_forms:
        case []:
            return schema
        case [form]:
            return _without_null(form | other_keywords)
        case _:
            return other_keywords | {"anyOf": non_null_forms}


def _schema_part(name: str, value: Any, *, is_asked: bool, with_null: bool = False) -> Json:
    match name:
        case "default":
            is_described_default = is_asked and isinstance(value, str | int | float) and bool(value)
            return {"x-default": value} if is_described_default else {}
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return {name: [_brief_schema(form, is_asked=is_asked) for form in value]}
        case "properties":
            fields = cast("dict[str, Json]", value)
            brief_part = partial(_brief_schema, is_asked=is_asked, may_be_null=with_null)
            return {name: {field: brief_part(field_schema) for field, field_schema in fields.items()}}
        case "patternProperties":
            (field_schema,) = value.values()
            return {"additionalProperties": _brief_schema(field_schema, is_asked=is_asked)}
        case "items" | "additionalProperties" if isinstance(value, dict):
            return {name: _brief_schema(cast("Json", value), is_asked=is_asked)}
        case "pattern":
            return {name: _PORTABLE if value == NAME_PATTERN else value}
        case "maximum" | "minimum" if abs(value) > _MOST:
            return {}
        case _:
            return {name: value}


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split()).split(". ")[0].removesuffix(".") + "."


JsonExamples = dict[str, Any]

_ID = "0197c0de-0000-7000-8000-000000000000"
_HASH = "0" * 64
_DELTA: JsonExamples = {
    "turn_id": "turn-1",
    "input_messages": [{"role": "user", "text": "When did we move?", "speaker": "Ada"}],
    "assistant_message": {"role": "assistant", "text": "In May."},
}
_REGISTRY: JsonExamples = {"registry_id": "host-tools", "namespace": "host", "tools": []}
_MANIFEST: JsonExamples = {
    "mode": "bootstrap",
    "space": "ada",
    "channel": "default",
    "conversation": "default",
    "made_at": 1767225600000,
    "includes": [],
    "fingerprint": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
}
_EXAMPLE_NAMES: JsonExamples = {"namespace": ["users", "ada"], "key": "theme"}
_SKILL = "runtime_skill__brew_tea"

REQUESTS: Final[Mapping[str, JsonExamples]] = MappingProxyType(
    {
        "AddRequest": {"text": "We moved to Lisbon in May.", "speaker": "Ada"},
        "SearchRequest": {"query": "When did we move?", "limit": 5},
        "FactRequest": {"topic": "home town", "content": "Ada lives in Lisbon."},
        "ContextRequest": {"query": "When did we move?", "max_chars": 2000},
        "MemoryWriteRequest": {
            "write": {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon in May."}]}]}
        },
        "MemoryRecallRequest": {"query": "When did we move?", "limit": 5},
        "MemoryProjectionRequest": {"query": "When did we move?", "max_chars": 2000},
        "MemorySpaceExportRequest": {"path": "memory.elytron"},
        "MemoryImportRequest": {"path": "memory.elytron", "mode": "bootstrap", "dry_run": True},
        "MemoryErasuresKeepRequest": {"path": "erasures.jsonl"},
        "MemoryErasuresApplyRequest": {"path": "erasures.jsonl"},
        "MemoryGetRequest": {"id": _ID},
        "MemoryHistoryRequest": {"id": _ID},
        "MemoryForgetRequest": {"ids": [_ID]},
        "MemoryCorrectRequest": {"id": _ID, "content": "Ada lives in Porto."},
        "MemoryEraseRequest": {"ids": [_ID], "dry_run": True},
        "RecordPutRequest": _EXAMPLE_NAMES | {"value": {"colour": "dark"}, "text": "The screen is dark."},
        "RecordGetRequest": _EXAMPLE_NAMES,
        "RecordDeleteRequest": _EXAMPLE_NAMES | {"dry_run": True},
        "RecordHistoryRequest": _EXAMPLE_NAMES,
        "FactDetailRequest": {"id": _ID},
        "FactChangeRequest": {"id": _ID, "action": "correct", "content": "Ada lives in Porto."},
        "FactForgetRequest": {"query": "home town", "dry_run": True},
        "LearningRequest": {"action": "pause", "topic": "home town", "dry_run": True},
        "CandidateResolveRequest": {"id": _ID, "resolution": "reject"},
        "ContinuityImportRequest": {"snapshot": {"manifest": _MANIFEST, "layers": {}}, "dry_run": True},
        "GardenRequest": {"audience": "owner"},
        "MemoryTranscriptCommitRequest": {"delta": _DELTA},
        "MemoryFinalizeTurnRequest": {"delta": _DELTA | {"turn_id": "turn-2"}},
        "MemoryTranscriptLifecycleRequest": {"transition": "review"},
        "RuntimeSkillDetailRequest": {"name": _SKILL},
        "RuntimeSkillEditRequest": {"name": _SKILL, "summary": "Brew tea."},
        "RuntimeSkillSetEnabledRequest": {"name": _SKILL, "enabled": False},
        "RuntimeSkillDeleteRequest": {"name": _SKILL},
        "RuntimeSkillReuseRequest": {"names": [_SKILL], "outcome": "succeeded"},
        "AgentSkillDirAddRequest": {"path": "skills"},
        "AgentToolRegistryUpsertRequest": {"snapshot": _REGISTRY},
        "AgentToolRegistrySnapshot": _REGISTRY,
        "AgentToolRegistryGetRequest": {"registry_id": "host-tools"},
        "AgentToolRegistryDeleteRequest": {"registry_id": "host-tools"},
        "JobRetryRequest": {"id": _HASH},
        "JobCancelRequest": {"id": _HASH},
        "AccessAddRequest": {"kind": "user", "space": "ada", "label": "Ada's phone"},
    }
)

ANSWERS: Final[Mapping[str, JsonExamples]] = MappingProxyType(
    {
        "AddReport": {"ids": ["5f0c9a1e7b3d42c8.000000000001"]},
        "SearchReport": {
            "hits": [
                {
                    "id": "5f0c9a1e7b3d42c8.000000000001",
                    "text": "We moved to Lisbon in May.",
                    "score": 0.9,
                    "at": "2026-05-03T10:00:00Z",
                    "speaker": "Ada",
                    "conversation": "default",
                }
            ]
        },
        "FactReport": {"id": _ID, "outcome": "stored"},
        "ContextReport": {"text": "Ada: We moved to Lisbon in May."},
    }
)

PROBLEM: Final[JsonExamples] = {
    "type": "urn:elytron:error:invalid_input",
    "title": "A value is not valid",
    "status": 422,
    "detail": "limit is not valid: input should be greater than or equal to 1",
    "instance": "urn:elytron:request:5f0c9a1e",
    "code": "invalid_input",
    "seed_key": "operation_mismatch",
    "request_id": "5f0c9a1e",
    "retryable": False,
}
