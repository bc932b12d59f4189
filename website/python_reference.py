"""Generate the pages of the Python API: a directive for each public name, rendered from its docstring."""

import inspect
from collections import defaultdict
from pathlib import Path
from typing import Any

import elytron
import elytron_agent
import elytron_models
import elytron_proxy

FOLDER = "reference/python-api"
RUNTIME = ("MemoryRuntime", "open", "RuntimeOpening", "connect", "RemoteConnecting", "import_transcript", "instant")
SHADOWS = {"SyncMemoryRuntime", "RemoteMemory", "SyncRemoteMemory"}
"""Classes with the methods of another one, which is documented."""
PACKAGES = {
    "agent": ("The agent", elytron_agent),
    "models": ("Model clients", elytron_models),
    "proxy": ("The model proxy", elytron_proxy),
}
FAMILIES = {
    "transcript": "Writing and transcripts",
    "recall": "Recall and reading",
    "projection": "Projection",
    "control": "Forgetting, correcting, erasing",
    "facts": "Facts",
    "skills": "Skills",
    "tools": "Tools",
    "records": "Records",
    "continuity": "Continuity and subjects",
    "candidates": "Candidates",
    "maintenance": "Maintenance and jobs",
    "archive": "Archives",
    "inspection": "Inspection and lifecycle",
}
"""Pages of requests, reports and words, by the module that defines them."""
SECTIONS: dict[str, list[Any]] = {
    "Reference": [
        {
            "Python API": [
                f"{FOLDER}/runtime.md",
                *(f"{FOLDER}/{family}.md" for family in FAMILIES),
                f"{FOLDER}/words.md",
                *(f"{FOLDER}/{name}.md" for name in PACKAGES),
            ]
        }
    ]
}


def _is_documented(thing: Any) -> bool:
    """Return whether a public name is a class or a function; aliases of types are shown where they are used."""
    return inspect.isclass(thing) or inspect.isfunction(thing)


def write_pages(pages: Path, /) -> None:
    """Write one page for the runtime, one for each family of contracts, and one for each other package."""
    names = {name: getattr(elytron, name) for name in dir(elytron) if name[0] != "_"}
    families: dict[str, list[str]] = defaultdict(list)
    for name, thing in names.items():
        if name in SHADOWS or name in RUNTIME or not _is_documented(thing):
            continue
        family = thing.__module__.rpartition(".")[2]
        families[family if family in FAMILIES else "words"].append(f"{thing.__module__}.{thing.__qualname__}")
    undocumented = [name for name, thing in names.items() if _is_documented(thing) and not thing.__doc__]
    if undocumented:
        raise SystemExit(f"public names without a docstring: {', '.join(sorted(undocumented))}")
    runtime = [f"{names[name].__module__}.{names[name].__qualname__}" for name in RUNTIME]
    _write(pages / FOLDER / "runtime.md", "The runtime", runtime, inherited=True)
    for family, title in FAMILIES.items():
        _write(pages / FOLDER / f"{family}.md", title, families.pop(family, []))
    _write(pages / FOLDER / "words.md", "Other public names", families.pop("words"))
    for name, (title, package) in PACKAGES.items():
        things = [getattr(package, public) for public in package.__all__]
        paths = [f"{thing.__module__}.{thing.__qualname__}" for thing in things if _is_documented(thing)]
        _write(pages / FOLDER / f"{name}.md", title, paths)


def _write(page: Path, title: str, paths: list[str], *, inherited: bool = False) -> None:
    options = "    options:\n      inherited_members: true\n" if inherited else ""
    page.parent.mkdir(parents=True, exist_ok=True)
    directives = "\n".join(
        f"::: {path}\n{options}" for path in sorted(set(paths), key=lambda path: path.rpartition(".")[2])
    )
    page.write_text(f"# {title}\n\n{directives}", encoding="utf-8")
