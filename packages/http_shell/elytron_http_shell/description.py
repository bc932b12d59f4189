"""The server's self-description: OpenAPI 3.1 documents derived from its surfaces, readable pages, and its health.

One document is for client generators: members' operations, the flat calls and health. The other one is complete.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from elytron.memories.lookup import READS
from elytron.registry import WIRE_OPERATIONS
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import FAILURES
from elytron_adapter.http.responses import MEDIA_TYPE, ProblemDocument, refused_response, request_id_of, shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription, SurfaceProtocol
from elytron_core import limits
from elytron_core.contracts.maintenance import PUTTING_OFF
from elytron_http_shell.operations import path_of
from elytron_http_shell.schemas import ANSWERS, PROBLEM, REF, REQUESTS, brief_schemas
from elytron_http_shell.telemetry import ServerMetrics

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
_PAGES_GROUP = "pages"
_PAGES = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/docs/docs.css": ("docs.css", "text/css; charset=utf-8"),
    "/docs/icon.svg": ("icon.svg", "image/svg+xml"),
}


def watching_surfaces(
    entrance: CallerAdmission, metrics: ServerMetrics, /, *, told_to: SurfaceAccess
) -> tuple[Surface, ...]:
    """Return the surfaces of the server's health; its abilities are shown to callers that `told_to` lets in."""

    async def ready(request: Request) -> Response:
        problem = await entrance.dispatcher.unready(request_id_of(request.scope))
        return JSONResponse({"status": "ready", **metrics.losses()}) if problem is None else refused_response(problem)

    async def figures(_request: Request) -> Response:
        return await metrics.render_all()

    healthy = "Healthy."
    return (
        shown_surface("/livez", _live_page, access=SurfaceAccess.PUBLIC, methods=("GET",),
              description=SurfaceDescription("live", "Check that the process is running.", answer=healthy)),
        shown_surface("/readyz", ready, access=SurfaceAccess.PUBLIC, methods=("GET",),
              description=SurfaceDescription("ready", "Check whether the store answers.", answer=healthy)),
        shown_surface("/metrics", figures, access=SurfaceAccess.OPERATOR, methods=("GET",),
              description=SurfaceDescription("metrics", "Return metrics in the Prometheus format.", None, "text/plain",
                        answer="The metrics.")),
        shown_surface("/v1/operations", _operations_page, access=told_to, methods=("GET",),
              description=SurfaceDescription("operations", "List the operations.", answer="The operations.")),
    )  # fmt: skip


def describing_surfaces(surfaces: Sequence[Surface], /, *, told_to: SurfaceAccess) -> tuple[Surface, ...]:
    """Return the surfaces that describe `surfaces` and themselves; the page is public, its content is not."""
    here = [
        shown_surface(path, _static_page(name, media_type), access=SurfaceAccess.PUBLIC, methods=("GET",),
              description=SurfaceDescription(name.replace(".", "_"), "Serve the page for browsing operations.", None,
                        media_type.partition(";")[0], ("If-None-Match",), answer="The page.", group=_PAGES_GROUP))
        for path, (name, media_type) in _PAGES.items()
    ]  # fmt: skip

    @cache
    def body(make: Callable[[Iterable[Surface]], dict[str, Any]]) -> bytes:
        # Made when it is first asked for: it takes longer than everything else that a server does to start.
        return json.dumps(make([*surfaces, *here, *own, home]), separators=(",", ":"), ensure_ascii=False).encode()

    async def for_clients(request: Request) -> Response:
        return _unless_known(request, await asyncio.to_thread(body, client_document), "application/json")

    async def whole(request: Request) -> Response:
        return _unless_known(request, await asyncio.to_thread(body, openapi_document), "application/json")

    own = (
        shown_surface("/openapi.json", for_clients, access=told_to, methods=("GET",),
              description=SurfaceDescription("openapi", "Return the OpenAPI document for client generators.",
                                      headers=("If-None-Match",),
                        answer="The document.", group=_PAGES_GROUP)),
        shown_surface("/openapi/all.json", whole, access=told_to, methods=("GET",),
              description=SurfaceDescription("openapi_all", "Return the OpenAPI document of every path.",
                                      headers=("If-None-Match",),
                        answer="The document.", group=_PAGES_GROUP)),
    )  # fmt: skip
    home = shown_surface(
        "/", _home_page, access=SurfaceAccess.PUBLIC, methods=("GET",),
        description=SurfaceDescription("home", "Redirect to the operations page.", status=307,
                                       answer="Redirects to the page.", group=_PAGES_GROUP),
    )  # fmt: skip
    return (*here, *own, home)


async def _home_page(_request: Request) -> Response:
    return RedirectResponse("/docs")


def _static_page(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        answer = _unless_known(request, _read_asset(name), media_type)
        answer.headers["Content-Security-Policy"] = _PAGE_POLICY
        answer.headers["X-Frame-Options"] = "DENY"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    return page


@cache
def _read_asset(name: str) -> bytes:
    return (files("elytron_http_shell") / "pages" / name).read_bytes()


def _unless_known(request: Request, body: bytes, media_type: str) -> Response:
    """Return `body` under its ETag, or 304 where the caller has it."""
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"ETag": etag})
    return Response(body, media_type=media_type, headers={"ETag": etag})


async def _operations_page(_request: Request) -> Response:
    listed = [
        {
            "name": operation.name,
            "path": path_of(operation),
            "summary": operation.summary,
            "mutates": operation.mutates,
            "role": operation.role,
        }
        for operation in WIRE_OPERATIONS
    ]
    return JSONResponse({"operations": listed})


async def _live_page(_request: Request) -> Response:
    return JSONResponse({"status": "live"})


Json = dict[str, Any]
Refs = Mapping[tuple[Any, JsonSchemaMode], Json]

_NO_CONTENT = frozenset({204, 307})
_REFS = f"{REF}{{model}}"
_BESIDE = frozenset({"console", "gateway", "pages", "paths that hosts know", "protocols", "webhooks"})
"""Groups that speak what others have laid down, or say once more what operations do: no client is generated of them."""
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
_ETAG_TOLD: Json = {"description": "The version of the returned content, for `If-Match`.", "schema": {"type": "string"}}
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
    """Return the document that clients are generated from: operations of members, without those of operators."""
    member_surfaces = (
        surface
        for surface in surfaces
        if surface.access is not SurfaceAccess.OPERATOR and (surface.told is None or surface.told.group not in _BESIDE)
    )
    return openapi_document(member_surfaces, is_whole=False)


def openapi_document(surfaces: Iterable[Surface], /, *, is_whole: bool = True) -> Json:
    """Return the document of all the HTTP surfaces, with the bounds and words of requests if it `is_whole`."""
    described = [
        (surface, surface.told or _default_description(surface))
        for surface in surfaces
        if surface.kind is SurfaceProtocol.HTTP
    ]
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(ProblemDocument, "serialization")]
    for _, description in described:
        if isinstance(description.taken, type):
            models.append((description.taken, "validation"))
        if isinstance(description.given, type):
            models.append((description.given, "serialization"))
    refs, schemas = _model_schemas(tuple(dict.fromkeys(models)))
    paths: Json = {}
    for surface, description in described:
        for method in surface.methods:
            paths.setdefault(_IN_PATH.sub(r"{\1}", surface.path), {})[method.lower()] = _described_surface(
                surface, description, refs
            )
    requests = [ref for (_, mode), ref in refs.items() if mode == "validation"]
    reports = [ref for (_, mode), ref in refs.items() if mode == "serialization"]
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
            "headers": {_ETAG: _ETAG_TOLD},
            "securitySchemes": _SECURITY,
        },
    }


@lru_cache(maxsize=8)
def _model_schemas(models: tuple[tuple[type[BaseModel], JsonSchemaMode], ...]) -> tuple[Refs, Json]:
    """Return the references and schemas of `models`, which all servers of a process share: they take the longest."""
    refs, schemas = models_json_schema(models, ref_template=_REFS)
    return refs, schemas["$defs"]


def _default_description(surface: Surface) -> SurfaceDescription:
    """Return the description of a surface without one of its own."""
    name = re.sub(r"\W+", "_", f"{surface.methods[0].lower()}{surface.path}").strip("_")
    return SurfaceDescription(name, f"Call {surface.path}, for {surface.access}.")


def _described_surface(surface: Surface, description: SurfaceDescription, refs: Refs) -> Json:
    operation: Json = {
        "operationId": description.name,
        "summary": description.summary,
        "tags": [description.group],
        "responses": _surface_responses(description, refs),
    }
    if parameters := _path_parameters(surface.path, description):
        operation["parameters"] = parameters
    if surface.access is not SurfaceAccess.MEMBER:
        operation["x-access"] = surface.access
    if _NEEDS[surface.access] is not _BEARER:
        operation["security"] = _NEEDS[surface.access]
    match description.taken:
        case None:
            pass
        case str():
            operation["requestBody"] = {
                "required": True,
                "content": {description.taken: _bytes_schema(description.taken)},
            }
        case _:
            content: Json = {"schema": refs[description.taken, "validation"]}
            if (example := REQUESTS.get(description.taken.__name__)) is not None:
                content["example"] = example
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _path_parameters(path: str, description: SurfaceDescription) -> list[Json]:
    in_path = [{"name": name, "in": "path", "required": True, "schema": _ID} for name in _IN_PATH.findall(path)]
    in_query = [{"name": name, "in": "query", "schema": _ID} for name in description.query]
    own = [name for name in description.headers if name not in _EVERYWHERE]
    in_header = [{"$ref": f"#/components/parameters/{_header_reference(name)}"} for name in own]
    return [*in_path, *in_query, *in_header]


def _header_reference(header: str) -> str:
    return header.replace("-", "")


def _answer_schema(description: SurfaceDescription, refs: Refs) -> Json:
    if description.status in _NO_CONTENT:
        return {"description": description.answer}
    match description.given:
        case None:
            return _response_schema(description.answer, {"type": "object"})
        case str():
            return {"description": description.answer, "content": {description.given: _bytes_schema(description.given)}}
        case _:
            schema = _response_schema(description.answer, refs[description.given, "serialization"])
            if (example := ANSWERS.get(description.given.__name__)) is not None:
                schema["content"]["application/json"]["example"] = example
            return schema


def _bytes_schema(media_type: str) -> Json:
    """Return the schema of what is no JSON of ours."""
    match media_type.partition("/"):
        case ("text", _, _):
            return {"schema": {"type": "string"}}
        case _ if media_type == _JSON:
            return {"schema": {}}
        case _:
            return {"schema": {"type": "string", "format": "binary"}}


def _surface_responses(description: SurfaceDescription, refs: Refs) -> Json:
    responses: Json = {
        str(description.status): _answer_schema(description, refs),
        "default": {"$ref": f"#/components/responses/{_PROBLEM}"},
    }
    if description.taken in READS or "If-None-Match" in description.headers:
        responses[str(description.status)]["headers"] = {_ETAG: {"$ref": f"#/components/headers/{_ETAG}"}}
    if "If-None-Match" in description.headers:
        responses["304"] = {"description": "Not modified: the caller's copy is current."}
    if description.given in PUTTING_OFF:
        responses["202"] = _response_schema(
            "The work done so far, and the job that will do the rest.", refs[description.given, "serialization"]
        )
    for status in description.beside:
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
