"""Text rules that no linter knows: no developer's machine, no deferred work, no broken link."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.gates.tree import FOLDERS, ROOT, files, pages, shown

# Written in pieces, so that this file passes its own gate.
_HOSTS = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com", "cond" + "a.anaconda.org")
_INDEX_LINES = ("--index" + "-url", "--extra-index" + "-url", "--find" + "-links")
_MACHINE = re.compile(r"(?<![\w.$}-])/(?:ro" + r"ot|home/\w+|Use" + r"rs/\w+|wo" + r"rk|opt)/")
_LATER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|Not" + r"ImplementedError)\b|mark\.sk" + r"ip|mark\.xf" + "ail")
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
_MODULE = re.compile(r"`((?:[\w.-]+/)*\w[\w-]*\.(?:py|mjs))`")
_NAMED = re.compile(rf"`((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*-]+)`")


@cache
def texts() -> dict[str, str]:
    """Return every text file of the repository by its name."""
    top = [path for path in ROOT.iterdir() if path.suffix in {".md", ".toml"} or path.name == ".gitignore"]
    found: dict[str, str] = {}
    for path in [*top, *files(*FOLDERS)]:
        data = path.read_bytes()
        if b"\0" not in data:
            found[shown(path)] = data.decode("utf-8")
    return found


def naming(pattern: re.Pattern[str]) -> list[str]:
    """Return the places in the repository that match `pattern`."""
    return [
        f"{name}:{number}"
        for name, text in texts().items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_registry() -> None:
    assert naming(re.compile("|".join(map(re.escape, _HOSTS)))) == []


def test_no_requirements_file_names_a_package_index() -> None:
    listed = files("requirements")
    assert listed
    assert [shown(path) for path in listed if any(line in path.read_text("utf-8") for line in _INDEX_LINES)] == []


def test_no_file_names_a_path_on_a_developers_machine() -> None:
    assert naming(_MACHINE) == []


def test_nothing_is_left_for_later() -> None:
    assert naming(_LATER) == []


def test_every_link_between_pages_resolves() -> None:
    broken = [
        f"{shown(page)} -> {link}"
        for page in pages()
        for link in _LINK.findall(page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


def test_every_file_named_on_a_page_exists() -> None:
    missing = [
        f"{shown(page)}: {name}"
        for page in pages()
        for name in _NAMED.findall(page.read_text("utf-8"))
        if not _is_there(name)
    ]
    assert missing == []


def test_every_module_named_on_a_page_exists() -> None:
    modules = [f"/{shown(path)}" for suffix in (".py", ".mjs") for path in files(*FOLDERS, suffix=suffix)]
    missing = [
        f"{shown(page)}: {name}"
        for page in pages()
        for name in _MODULE.findall(page.read_text("utf-8"))
        if not any(module.endswith(f"/{name}") for module in modules)
    ]
    assert missing == []


def _is_there(name: str) -> bool:
    if "*" in name:
        return any(ROOT.glob(name))
    return (ROOT / Path(name)).exists()


def test_the_subjects_of_the_last_commits_are_short() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return  # an archive of the sources has no history
    log = [git, "-C", str(ROOT), "log", "--no-merges", "-30", "--format=%s"]
    subjects = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [subject for subject in subjects if len(subject) > 72] == []
