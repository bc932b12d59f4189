"""Requests to other servers go out through one factory of clients, and texts are read in a named encoding."""

import ast
from pathlib import Path

from tests.gates.tree import files, nodes, shown

FACTORY = "packages/outbound/elytron_outbound/clients.py"
_LIBRARIES = {"httpx", "httpx2", "requests", "aiohttp"}
_CALLS = {"Client", "get", "post", "put", "patch", "delete", "request", "stream"}
_MODULES = {"urllib.request", "http.client", "aiohttp", "requests", "mcp.shared._httpx_utils"}


def _opens_client(node: ast.AST) -> bool:
    """Return whether `node` makes an HTTP client, or sends a request without one."""
    match node:
        case ast.Call(func=ast.Attribute(attr="AsyncClient") | ast.Name(id="AsyncClient" | "create_mcp_http_client")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=library), attr=call)):
            return library in _LIBRARIES and call in _CALLS
        case ast.Import(names=names):
            return any(name.name in _MODULES for name in names)
        case ast.ImportFrom(module=module):
            return module in _MODULES
        case _:
            return False


def _places(path: Path) -> list[str]:
    return [f"{shown(path)}:{getattr(node, 'lineno', 0)}" for node in nodes(path) if _opens_client(node)]


def test_only_the_factory_makes_http_clients() -> None:
    modules = [path for path in files("packages", suffix=".py") if shown(path) != FACTORY]
    assert [place for path in modules for place in _places(path)] == []
