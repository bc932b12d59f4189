"""Code metrics: modules, imports, names, and how much code each behaviour runs through.

    uv run --group dev python -m benchmarks.house [--roads]

Counted in `packages/` without conformance suites: modules without the packages' own `__init__`, lines of all files,
lines of import statements, module-level functions and classes with a one-word name, and module-level functions whose
name occurs in several modules. With `--roads`, each behaviour also runs once more after two warm-ups, on a store in
memory, and these are counted: modules crossed, calls of the product's own functions, reads of the store (`get` and
`scan`) and commits. The proxied request is a streamed chat completion, up to the commit of its turns. The agent's turn
is one of two steps with one read-only tool call, and one without tools.
"""

import argparse
import ast
import asyncio
import itertools
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import httpx

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_agent import Agent, CallKey, Tool
from elytron_core.ports.chat import (
    FinishReason,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ToolCall,
    ToolResult,
)
from elytron_proxy import ModelUpstream, ProxyApp, ProxySettings

ROOT = Path(__file__).resolve().parents[1] / "packages"
AIMS = {
    "modules": "at most 450",
    "import lines, %": "at most 6.5",
    "one-word functions, %": "at most 15",
    "one-word classes, %": "at most 12",
    "names that recur, %": "at most 12",
    "functions with a bare participle, %": "at most 2",
    "ways of declaring a route": "one",
    "modules that spell the fence": "one",
}
PARTS = {
    "  tools for developers": ("replay", "evaluation", "sdk/elytron/models"),
    "  console, agents for many, PostgreSQL": (
        *("console", "agent/elytron_agent/service", "agent/elytron_agent/rag", "store/elytron_store/postgres"),
    ),
}
"""Folders whose modules are also counted separately: developer tools, and what is built on the memory."""
ROAD_AIMS = {
    "write": "at most 22 modules",
    "recall": "at most 45 modules, 900 calls",
    "project": "at most 45 modules, 900 calls, 6 reads",
    "proxied": "",
    "agent": "at most 80 modules, 3000 calls, 3 commits",
    "agent, no tool": "at most 80 modules, 12 reads, 3 commits",
}


PARTICIPLES = frozenset(
    """
    asked begun born bound brought chosen done drawn due felt found given gone got heard held kept known laid lain
    left lent made meant met named needed put said seen sent shown sold spoken stood struck taken thought told
    used wanted won worn written
    """.split()  # noqa: SIM905 - a list of words reads as one
)
"""Words that say nothing about the value in a variable."""


ROUTE_METHODS = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
ROUTE_BUILDERS = {ROOT / "adapter/elytron_adapter/surface.py", ROOT / "http_shell/elytron_http_shell/application.py"}
"""Modules that build surfaces from routes, and the web framework's own routes of surfaces."""
CLIENTS = {"client", "remote"}
"""Folders of the clients, which call routes by method and path."""


class RoadCount(NamedTuple):
    """What one run of a behaviour runs through."""

    modules: int
    calls: int
    reads: int
    commits: int


def source_files() -> Iterator[Path]:
    """Yield every Python file of the product."""
    for path in sorted(ROOT.rglob("*.py")):
        if "conformance" not in path.parts:
            yield path


def bare_participles(function: ast.AST, /) -> set[str]:
    """Return the participles that a function uses as variable or parameter names. `left` is allowed next to `right`."""
    names: set[str] = set()
    for part in ast.walk(function):
        if isinstance(part, ast.arg):
            names.add(part.arg)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
    return names & (PARTICIPLES - {"left"} if "right" in names else PARTICIPLES)


def lasting_names(tree: ast.Module, /) -> Iterator[str]:
    """Yield the names of a module's globals, and of attributes, fields and methods as `Class.name`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        yield from _stored_names(node)
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for member in owner.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{owner.name}.{member.name}"
            for part in ast.walk(member):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    yield f"{owner.name}.{part.attr}"
            yield from (f"{owner.name}.{name}" for name in _stored_names(member))


def _stored_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def is_participle(name: str, /) -> bool:
    """Return whether the last part of `name` is a bare participle. `put` counts as a verb."""
    bare = name.rpartition(".")[2].strip("_").lower()
    return bare in PARTICIPLES and bare != "put"


def is_one_word(name: str, /) -> bool:
    """Return whether `name` is a single word in either naming style."""
    bare = name.strip("_")
    return "_" not in bare if bare == bare.lower() else len(re.findall(r"[A-Z][a-z0-9]*", bare)) <= 1


def route_ways(tree: ast.AST, /) -> Iterator[str]:
    """Yield, for each route that a module declares, the name of what declares it.

    This is a row with a method, a path and a handler, a decorator with a path, or a route of the web framework.
    """
    framework: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="starlette.routing", names=names):
                framework |= {name.asname or name.name for name in names if name.name.endswith(("Route", "Mount"))}
            case ast.Call(func=ast.Name(id=name)) if name in framework or name == "Surface":
                yield name
            case ast.Call(func=function, args=[ast.Constant(value=str(method)), _, _, *_]) if method in ROUTE_METHODS:
                yield ast.unparse(function)
            case ast.Tuple(elts=[ast.Constant(value=str(method)), path, _, *_]) if method in ROUTE_METHODS:
                # A tuple of methods without a path declares nothing.
                if not isinstance(path, ast.Constant) or path.value not in ROUTE_METHODS:
                    yield "tuple"
            case ast.FunctionDef(decorator_list=decorators) | ast.AsyncFunctionDef(decorator_list=decorators):
                for decorator in decorators:
                    match decorator:
                        case ast.Call(func=function, args=[ast.Constant(value=str(path)), *_]) if path[:1] == "/":
                            yield f"@{ast.unparse(function)}"
                        case _:
                            pass
            case _:
                pass


def parse_module(path: Path, /) -> ast.Module:
    """Return the syntax tree of the module at `path`."""
    return ast.parse(path.read_text(encoding="utf-8"))


def count_route_ways(parse: Callable[[Path], ast.Module] = parse_module) -> Counter[str]:
    """Return the number of routes that the product declares, by what declares them. Clients only call routes."""
    modules = (path for path in source_files() if path not in ROUTE_BUILDERS and not CLIENTS & {*path.parts})
    return Counter(way for path in modules for way in route_ways(parse(path)))


def house_figures() -> dict[str, float]:
    """Return each figure of the tree by name."""
    modules = lines = import_lines = every = participles = 0
    functions: list[str] = []
    classes: list[str] = []
    for path in source_files():
        text = path.read_text(encoding="utf-8")
        lines += len(text.splitlines())
        modules += path.name != "__init__.py"
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                import_lines += (node.end_lineno or node.lineno) - node.lineno + 1
        bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        every += len(bodies)
        participles += sum(bool(bare_participles(node)) for node in bodies)
        functions += [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        classes += [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    counts = Counter(functions)
    names = [path.relative_to(ROOT).as_posix() for path in source_files() if path.name != "__init__.py"]
    return {
        "modules": modules,
        **{
            part: sum(name.startswith(tuple(at if at.endswith(".py") else f"{at}/" for at in places)) for name in names)
            for part, places in PARTS.items()
        },
        "lines": lines,
        "import lines, %": round(100 * import_lines / lines, 1),
        "one-word functions, %": round(100 * sum(map(is_one_word, functions)) / len(functions), 1),
        "one-word classes, %": round(100 * sum(map(is_one_word, classes)) / len(classes), 1),
        "names that recur, %": round(100 * sum(counts[name] > 1 for name in functions) / len(functions), 1),
        "functions with a bare participle, %": round(100 * participles / every, 1),
        "class names that stand twice": sum(count > 1 for count in Counter(classes).values()),
        "ways of declaring a route": len(count_route_ways()),
        "modules that spell the fence": len(fence_modules()),
    }


def fence_modules() -> list[Path]:
    """Return the modules that build or recognise the fence around recalled text."""
    return [path.relative_to(ROOT) for path in source_files() if "<memory-" in path.read_text(encoding="utf-8")]


async def count_road(behaviour: Callable[[], Awaitable[object]], /) -> RoadCount:
    """Return what the measured run of `behaviour` runs through."""
    # Two runs, because some values are only built on first use in a thread that already has a history.
    await behaviour()
    await behaviour()
    modules: set[str] = set()
    calls = 0
    crossings: Counter[str] = Counter()
    prefix = str(ROOT)

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and not code.co_name.startswith("<"):
            modules.add(code.co_filename)
            calls += 1
            # Count calls of the engine only, not of its wrappers.
            crossings[code.co_qualname] += 1

    sys.setprofile(watch)
    try:
        await behaviour()
    finally:
        sys.setprofile(None)
    return RoadCount(
        len(modules), calls, crossings["Engine.get"] + crossings["Engine.scan"], crossings["Engine.commit"]
    )


class LookingModel:
    """A chat model that calls a tool and then answers."""

    info = ModelInfo(name="looking")

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        """Yield a call, and after its result an answer; without the tool, only the answer."""
        if isinstance(request.messages[-1], ToolResult) or "look" not in {tool.name for tool in request.tools}:
            yield TextDelta(text="Good morning.")
            yield ReplyFinished(reason=FinishReason.STOP)
        else:
            yield ToolCall(id="call", name="look", arguments="{}")
            yield ReplyFinished(reason=FinishReason.TOOLS)


async def look(_arguments: object, _key: CallKey, /) -> str:
    """Return what the tool sees."""
    return "A boat."


@asynccontextmanager
async def open_memory() -> AsyncGenerator[elytron.MemoryRuntime]:
    """Open a memory with some turns and a fact."""
    async with elytron.open("memory:", space="ada") as memory:
        for number in range(20):
            await memory.add(f"Ada saw ship number {number} in the harbour", conversation="c")
        await memory.add_fact("home", "Ada lives in Lisbon")
        yield memory


MODEL_ANSWER = b"""data: {"choices": [{"index": 0, "delta": {"content": "In Lisbon."}}]}

data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

data: [DONE]

"""
ANSWER_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


async def answer_model_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request for a chat completion, as a model server does."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length is not None else 0)
    writer.write(ANSWER_HEAD + MODEL_ANSWER)
    await writer.drain()
    writer.close()


@asynccontextmanager
async def open_proxy(memory: elytron.MemoryRuntime, /) -> AsyncGenerator[Callable[[], Awaitable[object]]]:
    """Yield what sends a request through a proxy of `memory`, and waits until it is stored."""
    server = await asyncio.start_server(answer_model_call, "127.0.0.1", 0)
    upstream = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
    admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
    app = ProxyApp(admission, ProxySettings(upstreams=(ModelUpstream(upstream),), space="ada"))
    numbers = itertools.count()
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")

    async def send_request() -> None:
        # One that repeats the last one would be taken for a retry, and store nothing.
        message = {"role": "user", "content": f"where does Ada live, for form {next(numbers)}?"}
        answer = await client.post("/v1/chat/completions", json={"model": "m", "stream": True, "messages": [message]})
        assert answer.status_code == 200, answer.text
        await app.idle()

    async with server, app.running(), client:
        yield send_request


async def road_counts() -> dict[str, RoadCount]:
    """Return the counts of each behaviour."""
    async with open_memory() as memory, open_proxy(memory) as send_request:
        tool = Tool("look", "Look at the harbour.", {"type": "object"}, look, read_only=True)
        looking, plain = Agent(memory, LookingModel(), (tool,)), Agent(memory, LookingModel(), name="plain")
        return {
            "write": await count_road(lambda: memory.add("Ada had tea at the pier", conversation="c")),
            "recall": await count_road(lambda: memory.recall("where does Ada live?")),
            "project": await count_road(lambda: memory.project("where does Ada live?")),
            "proxied": await count_road(send_request),
            "agent": await count_road(lambda: looking.say("Where do I live?")),
            "agent, no tool": await count_road(lambda: plain.say("Where do I live?")),
        }


def main() -> None:
    """Print every figure next to its target."""
    parser = argparse.ArgumentParser(description="Figures of the product's own tree.")
    parser.add_argument("--roads", action="store_true", help="also count what behaviours cross")
    asked = parser.parse_args()
    for name, value in house_figures().items():
        print(f"{name:38} {value:>9,.10g}   {AIMS.get(name, '')}")
    if asked.roads:
        for name, road in asyncio.run(road_counts()).items():
            counts = f"{road.modules:4} modules {road.calls:6} calls {road.reads:3} reads {road.commits:3} commits"
            print(f"{name:14} {counts}   {ROAD_AIMS[name]}")


if __name__ == "__main__":
    main()
