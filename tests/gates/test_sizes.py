"""Code that grows past one and a half screens is split where its nouns change."""

import ast

from tests.gates.tree import ROOT, definitions, files, nodes, parse, shown, source

MODULE_LINES = 600
FUNCTION_LINES = 60
CLASS_LINES = 300
PARAMETERS = 7
MANY_PARAMETERS = {
    "elytron/api/faces/facts.py: add_fact": "an everyday call",
    "elytron/api/faces/everyday.py: add": "an everyday call",
    "elytron/api/faces/everyday.py: recall": "an everyday call",
    "elytron/api/faces/records.py: put_record": "an everyday call",
    "elytron/embedding/embedders.py: __init__": "an embedder that hosts make",
    "elytron/factory.py: open": "an everyday call",
    "elytron/flows/transcript_import.py: import_transcript": "an everyday call",
    "elytron_agent/hooks/turn_hooks.py: turn": "a call of hosts",
    "elytron_agent/loop/agent.py: __init__": "an agent that hosts make",
    "elytron_cli/commands/agents/chat.py: chat_command": "the options of a command",
    "elytron_cli/commands/file_import.py: import_file": "the options of a command",
    "elytron_cli/commands/servers/serve.py: _agent_settings": "the options of a command",
    "elytron_cli/commands/servers/serve.py: serve_command": "the options of a command",
    "elytron_cli/commands/servers/proxy.py: proxy_command": "the options of a command",
    "elytron_gateway/resources.py: __init__": "the parts that a server joins",
    "elytron_http_shell/server.py: create_app": "a call of hosts",
    "elytron_store/store_urls.py: open_store": "a call of hosts",
    "elytron_store/sqlite/store.py: open": "a call of hosts",
}
"""Functions of the product with more parameters, and why. This list only shrinks."""
CHECKED = files("packages", "tests", "benchmarks", "examples", suffix=".py")


def test_no_module_has_more_than_600_lines() -> None:
    lines = {shown(path): len(source(path).splitlines()) for path in CHECKED}
    assert {path: count for path, count in lines.items() if count > MODULE_LINES} == {}


def test_no_function_has_more_than_60_lines_and_no_class_more_than_300() -> None:
    long = [
        f"{shown(path)}:{node.lineno} {node.name}: {size} lines"
        for path in CHECKED
        for node in definitions(parse(path))
        if (size := (node.end_lineno or 0) - node.lineno + 1)
        > (CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES)
    ]
    assert long == []


def test_a_function_with_more_than_seven_parameters_has_a_reason() -> None:
    long: set[str] = set()
    for path in files("packages", suffix=".py"):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if sum(each.arg not in {"self", "cls"} for each in arguments) > PARAMETERS:
                    long.add(f"{'/'.join(path.relative_to(ROOT / 'packages').parts[1:])}: {node.name}")
    assert long == set(MANY_PARAMETERS)
