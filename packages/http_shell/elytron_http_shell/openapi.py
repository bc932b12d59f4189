"""OpenAPI 3.1 documents, derived from the surfaces of a server.

One document is for client generators: members' operations, the flat calls and health. The other one is complete.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from elytron.memories.lookup import READS
from elytron_adapter.envelope import FAILURES
from elytron_adapter.http.responses import (
    MEDIA_TYPE,
    ProblemDocument,
)
from elytron_adapter.surface import Route, Surface, SurfaceAccess, SurfaceProtocol
from elytron_core import limits
from elytron_core.contracts.maintenance.maintenance import PUTTING_OFF
from elytron_http_shell.schemas import ANSWERS, PROBLEM, REF, REQUESTS, brief_schemas

Json = dict[str, Any]


Refs = Mapping[tuple[Any, JsonSchemaMode], Json]


_NO_CONTENT = frozenset({204, 307})


_REFS = f"{REF}{{model}}"


_BESIDE = frozenset({"console", "gateway", "pages", "paths that hosts know", "protocols", "webhooks"})
"""Groups of foreign protocols, or that repeat operations in another form: no client is generated from them."""


_IN_PATH = re.compile(r"\{(\w+)(?::\w+)?\}")


_ID = {"type": "string", "minLength": 1, "maxLength": limits.NAME_CHARS}


OPENAPI_BYTES = 150 * 1024
"""Bytes of the description that clients are generated from."""


_SUMMARY = "Governed memory for AI agents."


_ABOUT = (
    "Every request may carry the headers `X-Request-ID` (letters, digits and ._:-; returned and logged; generated if"
    " absent) and `X-Audit-ID` (an id from the caller's own records). A scope without `space` means the only space of"
    " the caller's key; a key for several spaces must name one."
)


_EVERYWHERE = frozenset({"X-Audit-ID"})


_HEADERS: dict[str, Json] = {
    "Idempotency-Key": {
        "description": "A repeat with the same body returns the first answer; one with another body is refused.",
        "schema": {"type": "string", "minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY_CHARS},
    },
    "If-None-Match": {"description": "The ETag of the caller's copy.", "schema": {"type": "string"}},
    "If-Match": {"description": "Proceed only if this is the current ETag.", "schema": {"type": "string"}},
    "Webhook-Key": {"description": "The id of the access key that signs the request.", "required": True, "schema": _ID},
    "Webhook-Id": {"description": "The message's id, for detecting repeats.", "required": True, "schema": _ID},
    "Webhook-Timestamp": {"description": "Unix time in seconds.", "required": True, "schema": {"type": "integer"}},
    "Last-Event-ID": {"description": "The id of the last event received.", "schema": {"type": "string"}},
}


_ETAG = "ETag"


_ETAG_HEADER: Json = {
    "description": "The version of the returned content, for `If-Match`.",
    "schema": {"type": "string"},
}


_SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An access key: `ely_<kind>_<id>_<secret>`."},
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Webhook-Signature",
        "description": "HMAC-SHA256 of id, timestamp and body, under the webhook secret of an access key.",
    },
}


_BEARER: list[Json] = [{"bearer": []}]


_NEEDS: dict[SurfaceAccess, list[Json]] = {
    SurfaceAccess.PUBLIC: [],
    SurfaceAccess.SIGNED: [{"signature": []}],
    SurfaceAccess.CREDENTIALS: [{}, {"bearer": []}],
    SurfaceAccess.MEMBER: _BEARER,
    SurfaceAccess.OWNER: _BEARER,
    SurfaceAccess.OPERATOR: _BEARER,
}


_JSON = "application/json"


_PROBLEM = "Problem"


def client_document(surfaces: Iterable[Surface], /) -> Json:
    """Return the document for generating clients: members' operations, without operators'."""
    return openapi_document(
        (
            surface
            for surface in surfaces
            if surface.route.access is not SurfaceAccess.OPERATOR and surface.route.group not in _BESIDE
        ),
        is_whole=False,
    )


def openapi_document(surfaces: Iterable[Surface], /, *, is_whole: bool = True) -> Json:
    """Return the document of all HTTP surfaces, with the limits and descriptions of requests if it `is_whole`."""
    routes = [surface.route for surface in surfaces if surface.route.protocol is SurfaceProtocol.HTTP]
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(ProblemDocument, "serialization")]
    for route in routes:
        if isinstance(route.request, type):
            models.append((route.request, "validation"))
        if isinstance(route.answer, type):
            models.append((route.answer, "serialization"))
    refs, schemas = _model_schemas(tuple(dict.fromkeys(models)))
    paths: Json = {}
    for route in routes:
        paths.setdefault(_IN_PATH.sub(r"{\1}", route.path), {})[route.method.lower()] = _described_route(route, refs)
    requests = [schema_ref for (_, mode), schema_ref in refs.items() if mode == "validation"]
    reports = [schema_ref for (_, mode), schema_ref in refs.items() if mode == "serialization"]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Elytron",
            "version": version("elytron"),
            "summary": _SUMMARY,
            "description": _ABOUT,
        },
        "servers": [{"url": "/", "description": "The server that returned this document."}],
        "security": _BEARER,
        "paths": paths,
        "components": {
            "schemas": brief_schemas(schemas, requests=requests, reports=reports, is_whole=is_whole),
            "parameters": {
                _header_reference(name): {"name": name, "in": "header", **description}
                for name, description in _HEADERS.items()
            },
            "responses": {_PROBLEM: _problem_response(refs)},
            "headers": {_ETAG: _ETAG_HEADER},
            "securitySchemes": _SECURITY,
        },
    }


@lru_cache(maxsize=8)
def _model_schemas(models: tuple[tuple[type[BaseModel], JsonSchemaMode], ...]) -> tuple[Refs, Json]:
    """Return the references and schemas of `models`, shared by all servers of a process, because they take the
    longest."""
    refs, schemas = models_json_schema(models, ref_template=_REFS)
    return refs, schemas["$defs"]


def _described_route(route: Route[Any], refs: Refs) -> Json:
    operation: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.group],
        "responses": _route_responses(route, refs),
    }
    if parameters := _route_parameters(route):
        operation["parameters"] = parameters
    if route.access is not SurfaceAccess.MEMBER:
        operation["x-access"] = route.access
    if _NEEDS[route.access] is not _BEARER:
        operation["security"] = _NEEDS[route.access]
    match route.request:
        case None:
            pass
        case str():
            operation["requestBody"] = {"required": True, "content": {route.request: _bytes_schema(route.request)}}
        case _:
            content: Json = {"schema": refs[route.request, "validation"]}
            if (example := REQUESTS.get(route.request.__name__)) is not None:
                content["example"] = example
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _route_parameters(route: Route[Any]) -> list[Json]:
    path_parameters = [
        {"name": name, "in": "path", "required": True, "schema": _ID} for name in _IN_PATH.findall(route.path)
    ]
    query_parameters = [{"name": name, "in": "query", "schema": _ID} for name in route.query]
    route_headers = [name for name in route.headers if name not in _EVERYWHERE]
    header_parameters = [{"$ref": f"#/components/parameters/{_header_reference(name)}"} for name in route_headers]
    return [*path_parameters, *query_parameters, *header_parameters]


def _header_reference(header: str) -> str:
    return header.replace("-", "")


def _answer_schema(route: Route[Any], refs: Refs) -> Json:
    if route.status in _NO_CONTENT:
        return {"description": route.outcome}
    match route.answer:
        case None:
            return _response_schema(route.outcome, {"type": "object"})
        case str():
            return {"description": route.outcome, "content": {route.answer: _bytes_schema(route.answer)}}
        case _:
            schema = _response_schema(route.outcome, refs[route.answer, "serialization"])
            if (example := ANSWERS.get(route.answer.__name__)) is not None:
                schema["content"]["application/json"]["example"] = example
            return schema


def _bytes_schema(media_type: str) -> Json:
    """Return the schema of a body that is not our JSON."""
    match media_type.partition("/"):
        case ("text", _, _):
            return {"schema": {"type": "string"}}
        case _ if media_type == _JSON:
            return {"schema": {}}
        case _:
            return {"schema": {"type": "string", "format": "binary"}}


def _route_responses(route: Route[Any], refs: Refs) -> Json:
    responses: Json = {
        str(route.status): _answer_schema(route, refs),
        "default": {"$ref": f"#/components/responses/{_PROBLEM}"},
    }
    if route.request in READS or "If-None-Match" in route.headers:
        responses[str(route.status)]["headers"] = {_ETAG: {"$ref": f"#/components/headers/{_ETAG}"}}
    if "If-None-Match" in route.headers:
        responses["304"] = {"description": "Not modified: the caller's copy is current."}
    if route.answer in PUTTING_OFF:
        responses["202"] = _response_schema(
            "The work done so far, and the job that will do the rest.", refs[route.answer, "serialization"]
        )
    for status in route.other_statuses:
        responses[str(status)] = {"description": "The protocol's own response.", "content": {"application/json": {}}}
    return responses


def _problem_response(refs: Refs) -> Json:
    """Return the answer that every surface may give: each error is a problem document."""
    statuses = sorted({row.status for row in FAILURES.values()})
    keys = {status: [key for key, row in FAILURES.items() if row.status == status] for status in statuses}
    keys_by_status = "; ".join(f"{status}: {', '.join(names)}" for status, names in keys.items())
    response = _response_schema(
        f"The reason that the request failed. {keys_by_status}.",
        refs[ProblemDocument, "serialization"],
        media_type=MEDIA_TYPE,
    )
    response["content"][MEDIA_TYPE]["example"] = PROBLEM
    return response


def _response_schema(description: str, schema: Any, *, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}
