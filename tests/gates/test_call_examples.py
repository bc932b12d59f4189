"""Every public call has an example in its docstring, and each example runs as written."""

import asyncio
import doctest
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron.api import MemoryFace
from elytron.factory import RuntimeOpening
from elytron.remote import RemoteConnecting, RemoteMemory
from elytron.runtime import MemoryRuntime, SyncMemoryRuntime
from elytron_http_shell.server import ServingSettings, served_http

_PARSER = doctest.DocTestParser()


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    """Return the public calls of a class by name, with those that it inherits."""
    return {name: call for name, call in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each public call; calls shared by remote and in-process memories occur once."""
    for name in dir(elytron):
        if inspect.isfunction(call := getattr(elytron, name)):
            yield name, call
    for kind in (SyncMemoryRuntime, RuntimeOpening, RemoteConnecting, RemoteMemory):
        for name, call in methods(kind).items():
            if kind is not RemoteMemory or name not in methods(MemoryFace):
                yield f"{kind.__name__}.{name}", call


CALLS = dict(calls())


def examples(of: object) -> list[doctest.Example]:
    """Return the examples in the docstring of a call or class."""
    return _PARSER.get_examples(inspect.getdoc(of) or "")


def family(name: str) -> list[type]:
    """Return the classes whose docstrings set up the examples of a memory's call; one may open its own memory."""
    kinds = [kind for kind in MemoryFace.__mro__[1:] if name in vars(kind)][:1]
    opens = any("elytron.open(" in example.source for kind in kinds for example in examples(kind))
    return kinds if opens else [MemoryFace, *kinds]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve a memory with one message on this machine."""
    with elytron.open("memory:", space="ada") as memory, ExitStack() as stack:
        memory.add("The boat key is under the oar.", speaker="Ada")
        serving = served_http(memory.runtime, ServingSettings(port=0, development=True))
        server = memory.run(serving.__aenter__())
        stack.callback(lambda: memory.run(serving.__aexit__(None, None, None)))
        yield server.address


@pytest.mark.parametrize("name", CALLS)
def test_the_example_of_a_call_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"elytron": elytron, "Path": Path, "asyncio": asyncio, "aclosing": aclosing}
    own = examples(CALLS[name])
    assert own, f"{name} has no example in its docstring"
    if any("address" in example.source for example in own):
        names["address"] = request.getfixturevalue("address")
    start = family(name.rpartition(".")[2]) if name.startswith("SyncMemoryRuntime.") else [MemoryFace]
    steps = [example for kind in start for example in examples(kind)] + own
    said: list[str] = []
    test = doctest.DocTest(steps, names, name, None, 0, None)
    try:
        doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    finally:
        test.globs["memory"].close()
    assert "".join(said) == ""


def test_awaited_and_blocking_calls_show_the_same_example() -> None:
    awaited = {name: examples(call) for name, call in methods(MemoryRuntime).items()}
    assert awaited == {name: examples(CALLS[f"SyncMemoryRuntime.{name}"]) for name in awaited}
