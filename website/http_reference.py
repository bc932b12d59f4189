"""Generate the page of HTTP routes from the server's own OpenAPI document."""

import asyncio
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_http_shell import create_app

PAGE = "reference/http-routes.md"
SECTIONS: dict[str, list[Any]] = {"Reference": [PAGE]}
METHODS = ("get", "post", "put", "patch", "delete")


async def _document() -> dict[str, Any]:
    async with elytron.open("memory:", space="docs") as memory:
        transport = httpx.ASGITransport(create_app(memory, authenticator=DevelopmentCallers()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/openapi/all.json")).json()


def write_pages(pages: Path, /) -> None:
    """Write the page of routes, a table for each group."""
    document = asyncio.run(_document())
    groups: dict[str, list[str]] = defaultdict(list)
    for path, item in document["paths"].items():
        for method in METHODS:
            if operation := item.get(method):
                group = next(iter(operation.get("tags", ["other"])))
                body, report = _schema(operation.get("requestBody")), _answer(operation)
                summary = operation.get("summary", "").replace("|", "\\|")
                groups[group].append(f"| `{method.upper()} {path}` | {summary} | {body} | {report} |")
    lines = [
        "# HTTP routes\n",
        "Generated from the OpenAPI document at `/openapi/all.json`, which describes every field and bound.",
        "[HTTP](http.md) describes the conventions of requests and answers.\n",
    ]
    for group in sorted(groups):
        lines += [f"## {group.capitalize()}\n", "| route | what it does | request | answer |", "|---|---|---|---|"]
        lines += [*groups[group], ""]
    (pages / PAGE).parent.mkdir(parents=True, exist_ok=True)
    (pages / PAGE).write_text("\n".join(lines), encoding="utf-8")


def _schema(body: dict[str, Any] | None) -> str:
    found = re.search(r"#/components/schemas/([\w.-]+)", str(body or ""))
    return f"`{found[1]}`" if found else ""


def _answer(operation: dict[str, Any]) -> str:
    success = {code: told for code, told in operation.get("responses", {}).items() if code.startswith("2")}
    codes = ", ".join(success)
    return " ".join(filter(None, [codes, _schema(success or None)]))
