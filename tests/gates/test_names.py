"""Names stand alone: at least two words of the field, but for a short list; no class has another's name."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.house import bare_participles, is_one_word, source_files
from tests.gates.tree import ROOT

ONE_WORD = {
    "Agent": "what a host runs",
    "Authenticator": "a port of hosts",
    "Batch": "the unit of a store's commit",
    "Candidate": "a plane's item",
    "Clock": "a port of hosts",
    "Conflict": "an error that hosts catch",
    "Conversation": "a plane's item",
    "Document": "what a store keeps",
    "Embedder": "a port of hosts",
    "Engine": "what a store is made of",
    "Envelope": "the card's word for a call",
    "Fact": "a plane's item",
    "Fixture": "the card's word for a story to replay",
    "Follower": "a reader of the journal",
    "Job": "a plane's item",
    "Message": "a plane's item",
    "Operation": "an entry of the registry",
    "Overloaded": "an error that hosts catch",
    "Principal": "the field's word for a caller that was let in",
    "Record": "a plane's item",
    "Request": "the base of every request",
    "Reranker": "a port of hosts",
    "Route": "a row of what a server serves",
    "Scope": "whose memory a request means",
    "Skill": "a plane's item",
    "Store": "the port of engines",
    "Subagent": "what an agent may call",
    "Subject": "a plane's item",
    "Surface": "a path of a server",
    "Tool": "what an agent may call",
    "Turn": "a plane's item",
    "Unauthorized": "an error that hosts catch",
    "Unreachable": "an error that hosts catch",
    "Unsupported": "an error that hosts catch",
    "Value": "the base of every stored value",
    "ask": "an everyday call",
    "connect": "an everyday call",
    "instant": "an everyday call",
    "main": "what runs a process",
    "open": "an everyday call",
    "wrap": "an everyday call",
}
"""Each name of one word, and why it is one."""


def named_by(path: Path) -> list[tuple[str, bool]]:
    """Return the names of the module's functions and classes, and whether each is a class."""
    return [
        (node.name, isinstance(node, ast.ClassDef))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def test_a_function_or_class_has_two_words_unless_the_list_gives_a_reason() -> None:
    found = {(path, name) for path in source_files() for name, _ in named_by(path) if is_one_word(name)}
    assert len(ONE_WORD) <= 40
    assert not {f"{path.relative_to(ROOT)}: {name}" for path, name in found if name not in ONE_WORD}
    assert not set(ONE_WORD) - {name for _, name in found}, "no longer a name"


def test_no_class_has_the_name_of_another() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in source_files():
        for name, is_class in named_by(path):
            if is_class:
                homes[name.strip("_")].append(str(path.relative_to(ROOT)))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def test_few_functions_have_the_name_of_another() -> None:
    names = [name for path in source_files() for name, is_class in named_by(path) if not is_class]
    counts = Counter(names)
    assert sum(counts[name] > 1 for name in names) <= 0.12 * len(names)


SAID_BY_PARTICIPLE = {
    "elytron_agent/blocks/toolset.py: __init__: seen": "a keyword of the public call",
    "elytron_core/errors/tree.py: __init__: found": "a field that errors carry to clients",
    "elytron_core/errors/tree.py: __init__: known": "a field that errors carry to clients",
}
"""Each variable that is a bare participle, and why it is one."""


def test_a_variable_says_what_it_holds() -> None:
    functions = (
        (path, node)
        for path in source_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    bare = {
        f"{'/'.join(path.parts[path.parts.index('packages') + 2 :])}: {node.name}: {word}"
        for path, node in functions
        for word in bare_participles(node)
    }
    assert bare == set(SAID_BY_PARTICIPLE)
