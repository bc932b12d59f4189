"""Requests to other servers use one client factory, and texts are read in a named encoding."""

import ast
from pathlib import Path

from tests.gates.tree import files, nodes, shown

FACTORY = "packages/outbound/elytron_outbound/clients.py"
_LIBRARIES = {"httpx", "httpx2", "requests", "aiohttp"}
_CALLS = {"Client", "get", "post", "put", "patch", "delete", "request", "stream"}
_MODULES = {"urllib.request", "http.client", "aiohttp", "requests", "mcp.shared._httpx_utils"}


def _opens_client(node: ast.AST) -> bool:
    """Return whether `node` creates an HTTP client, or sends a request without one."""
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


def test_only_the_factory_creates_http_clients() -> None:
    modules = [path for path in files("packages", suffix=".py") if shown(path) != FACTORY]
    assert [place for path in modules for place in _places(path)] == []


def _started_python(node: ast.AST) -> list[str] | None:
    """Return the words after Python's own path in a command line, or None."""
    if not isinstance(node, ast.List | ast.Tuple) or not node.elts or ast.unparse(node.elts[0]) != "sys.executable":
        return None
    return [str(word.value) for word in node.elts if isinstance(word, ast.Constant)]


def test_no_process_loads_modules_from_its_working_directory() -> None:
    """A hook or tool server starts in a repository, whose code it must not run."""
    starts = [
        (shown(path), words)
        for path in files("packages", suffix=".py")
        for node in nodes(path)
        if (words := _started_python(node)) is not None
    ]
    assert starts
    assert [start for start in starts if not {"-P", "-I"} & set(start[1])] == []


_TEXT_CALLS = {"read_text": 0, "write_text": 1}
"""Methods that read or write text, and the position of their encoding argument."""


def _leaves_encoding_open(node: ast.AST) -> bool:
    """Return whether `node` opens text in the machine's default encoding."""
    if not isinstance(node, ast.Call):
        return False
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if "encoding" in named:
        return False
    if name in _TEXT_CALLS:
        return len(node.args) <= _TEXT_CALLS[name]
    if name in {"run", "Popen", "check_output"}:
        return "text" in named or "universal_newlines" in named
    if name == "TextIOWrapper":
        return len(node.args) < 2
    if name in {"open", "fdopen"}:
        is_method = isinstance(node.func, ast.Attribute) and name == "open"
        place = 0 if is_method else 1
        mode = named.get("mode") or (node.args[place] if len(node.args) > place else None)
        if mode is None:
            return not is_method
        written = mode.value if isinstance(mode, ast.Constant) else None
        return isinstance(written, str) and set(written) <= set("rwxabt+") and "b" not in written
    return False


def test_every_text_is_read_and_written_in_a_named_encoding() -> None:
    places = [
        f"{shown(path)}:{getattr(node, 'lineno', 0)}"
        for path in files("packages", suffix=".py")
        for node in nodes(path)
        if _leaves_encoding_open(node)
    ]
    assert places == []
