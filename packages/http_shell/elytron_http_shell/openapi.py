"""The OpenAPI 3.1 document of the routes, derived from the registry."""

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from elytron.registry import OPERATIONS, AnyOperation, Repeat
from elytron_adapter.failures import FAILURES
from elytron_http_shell.problems import MEDIA_TYPE, Problem

Json = dict[str, Any]

_REFS = "#/components/schemas/{model}"
_HEADERS: list[Json] = [
    {
        "name": "X-Request-ID",
        "in": "header",
        "description": "An id for this request, sent back and logged; made where there is none.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,200}$"},
    }
]
_IDEMPOTENCY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same body is answered alike and done once; with another body it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}


def path_of(operation: AnyOperation, /) -> str:
    """Return the path under which `operation` is posted."""
    return f"/v1/{operation.name}"


def document() -> Json:
    """Return the whole document."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    for operation in OPERATIONS:
        models.append((operation.request, "validation"))
        models.append((operation.report, "serialization"))
    refs, schemas = models_json_schema(models, ref_template=_REFS)
    problems = {
        str(status): _response(
            ", ".join(key for key, row in FAILURES.items() if row.status == status),
            refs[Problem, "serialization"],
            media_type=MEDIA_TYPE,
        )
        for status in sorted({row.status for row in FAILURES.values()})
    }
    paths: Json = {}
    for operation in OPERATIONS:
        report = _response("What was done.", refs[operation.report, "serialization"])
        paths[path_of(operation)] = {
            "post": {
                "operationId": operation.name,
                "summary": operation.summary,
                "parameters": _HEADERS if operation.repeat is Repeat.HARMLESS else [*_HEADERS, _IDEMPOTENCY],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": refs[operation.request, "validation"]}},
                },
                "responses": {"200": report, **problems},
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Elytron", "version": version("elytron"), "summary": "Governed memory for AI agents."},
        "paths": paths | _watching(problems),
        "components": {"schemas": schemas["$defs"]},
    }


def _watching(problems: Json) -> Json:
    plain = _response("It is.", {"type": "object"})
    named = {
        "/livez": ("live", "Say that the process answers.", {"200": plain}),
        "/readyz": ("ready", "Say whether the store answers.", {"200": plain, "503": problems["503"]}),
        "/v1/operations": ("operations", "List the operations.", {"200": plain}),
    }
    return {
        path: {"get": {"operationId": name, "summary": summary, "responses": responses}}
        for path, (name, summary, responses) in named.items()
    }


def _response(description: str, schema: Any, *, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}
