"""The OpenAPI 3.1 document, derived from the surfaces and so from the registry."""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from elytron.versions import READS
from elytron_adapter.failures import FAILURES, METHOD_NOT_ALLOWED
from elytron_core import limits
from elytron_core.contracts.maintaining import PUTTING_OFF
from elytron_http_shell.doors import Access, Kind, Surface, Told
from elytron_http_shell.problems import MEDIA_TYPE, Problem

Json = dict[str, Any]
Refs = Mapping[tuple[Any, JsonSchemaMode], Json]

_NO_CONTENT = 204
_REFS = "#/components/schemas/{model}"
_IN_PATH = re.compile(r"\{(\w+)(?::\w+)?\}")
_ID = {"type": "string", "minLength": 1, "maxLength": limits.NAME_CHARS}
_HEADERS: dict[str, Json] = {
    "X-Request-ID": {
        "description": "An id for this request: letters, digits and ._:-. Sent back and logged; else one is made.",
        "schema": {"type": "string"},
    },
    "X-Audit-ID": {"description": "An id of the caller's own records.", "schema": _ID},
    "Idempotency-Key": {
        "description": "The same key with the same body is answered alike and done once; with another it is refused.",
        "schema": {"type": "string", "minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY_CHARS},
    },
    "If-None-Match": {"description": "The ETag of what is known already.", "schema": {"type": "string"}},
    "If-Match": {"description": "Only where this is still the ETag.", "schema": {"type": "string"}},
    "Webhook-Key": {"description": "The id of the access key that signs.", "required": True, "schema": _ID},
    "Webhook-Id": {"description": "The message's id; the same one is done once.", "required": True, "schema": _ID},
    "Webhook-Timestamp": {"description": "Seconds since 1970.", "required": True, "schema": {"type": "integer"}},
    "Last-Event-ID": {"description": "The last event that was seen.", "schema": {"type": "string"}},
}
_ETAG: Json = {"description": "The version of what is shown, for `If-Match`.", "schema": {"type": "string"}}
_SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An access key: `ely_<kind>_<id>_<secret>`."},
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Webhook-Signature",
        "description": "HMAC-SHA256 of id, timestamp and body, under the webhook secret of an access key.",
    },
}
_NEEDS: dict[Access, list[Json]] = {
    Access.PUBLIC: [],
    Access.SIGNED: [{"signature": []}],
    Access.CREDENTIALS: [{}, {"bearer": []}],
    Access.MEMBER: [{"bearer": []}],
    Access.OPERATOR: [{"bearer": []}],
}


def document(surfaces: Iterable[Surface], /) -> Json:
    """Return the whole document of the HTTP surfaces."""
    described = [(surface, surface.told or _untold(surface)) for surface in surfaces if surface.kind is Kind.HTTP]
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    for _, told in described:
        if isinstance(told.taken, type):
            models.append((told.taken, "validation"))
        if isinstance(told.given, type):
            models.append((told.given, "serialization"))
    refs, schemas = models_json_schema(list(dict.fromkeys(models)), ref_template=_REFS)
    paths: Json = {}
    for surface, told in described:
        for method in surface.methods:
            paths.setdefault(_IN_PATH.sub(r"{\1}", surface.path), {})[method.lower()] = _described(surface, told, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Elytron", "version": version("elytron"), "summary": "Governed memory for AI agents."},
        "paths": paths,
        "components": {"schemas": schemas["$defs"], "securitySchemes": _SECURITY},
    }


def _untold(surface: Surface) -> Told:
    """Return the little that a surface tells by being there."""
    name = re.sub(r"\W+", "_", f"{surface.methods[0].lower()}{surface.path}").strip("_")
    return Told(name, f"{surface.path}, for {surface.access}.")


def _described(surface: Surface, told: Told, refs: Refs) -> Json:
    found: Json = {
        "operationId": told.name,
        "summary": told.summary,
        "tags": [told.group],
        "x-access": surface.access,
        "security": _NEEDS[surface.access],
        "parameters": _parameters(surface.path, told),
        "responses": _responses(told, refs),
    }
    match told.taken:
        case None:
            pass
        case str():
            found["requestBody"] = {"required": True, "content": {told.taken: {}}}
        case _:
            content = {"application/json": {"schema": refs[told.taken, "validation"]}}
            found["requestBody"] = {"required": True, "content": content}
    return found


def _parameters(path: str, told: Told) -> list[Json]:
    in_path = [{"name": name, "in": "path", "required": True, "schema": _ID} for name in _IN_PATH.findall(path)]
    in_query = [{"name": name, "in": "query", "schema": _ID} for name in told.query]
    in_header = [{"name": name, "in": "header", **_HEADERS[name]} for name in ("X-Request-ID", *told.headers)]
    return [*in_path, *in_query, *in_header]


def _answer(told: Told, refs: Refs) -> Json:
    if told.status == _NO_CONTENT:
        return {"description": told.answer}
    match told.given:
        case None:
            return _response(told.answer, {"type": "object"})
        case str():
            return {"description": told.answer, "content": {told.given: {}}}
        case _:
            return _response(told.answer, refs[told.given, "serialization"])


def _responses(told: Told, refs: Refs) -> Json:
    found = {str(told.status): _answer(told, refs), **_problems(refs)}
    if told.taken in READS or "If-None-Match" in told.headers:
        found[str(told.status)]["headers"] = {"ETag": _ETAG}
    if "If-None-Match" in told.headers:
        found["304"] = {"description": "What the caller has is still so."}
    if told.given in PUTTING_OFF:
        found["202"] = _response(
            "What was done, and in it the job that does the rest.", refs[told.given, "serialization"]
        )
    for status in told.beside:
        own = found.setdefault(str(status), {"description": "The protocol's own answer.", "content": {}})
        own["content"]["application/json"] = {}
    return found


def _problems(refs: Refs) -> Json:
    """Return the answers that every surface may give: whatever went wrong is a problem document."""
    statuses = sorted({row.status for key, row in FAILURES.items() if key != METHOD_NOT_ALLOWED})
    return {
        str(status): _response(
            ", ".join(key for key, row in FAILURES.items() if row.status == status),
            refs[Problem, "serialization"],
            media_type=MEDIA_TYPE,
        )
        for status in statuses
    }


def _response(description: str, schema: Any, *, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}
