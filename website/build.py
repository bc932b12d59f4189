"""Build the documentation site: `uv run --group dev --group docs python website/build.py`.

The pages of `docs/` and the top-level pages are copied to `build/website/docs`, the reference is generated next to
them from the code, and Zensical renders everything to `build/website/site` in strict mode. A broken link, a page that
no section lists, or a public name without documentation fails the build.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import command_reference
import http_reference
import llms
import python_reference
import table_reference

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "build" / "website"
PAGES = TARGET / "docs"
GENERATED = (python_reference, command_reference, http_reference, table_reference)
TOP_LEVEL = {
    "ARCHITECTURE.md": "contributors/architecture.md",
    "CONTRIBUTING.md": "contributors/contributing.md",
    "SECURITY.md": "explanation/security.md",
    "CHANGELOG.md": "reference/changelog.md",
}
"""Pages at the top of the repository, and where the site shows them."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)((?:#[^)\s]*)?)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def copy_pages() -> None:
    """Copy the written pages, with links that lead where the site has their targets."""
    places = {ROOT / name: PAGES / place for name, place in TOP_LEVEL.items()}
    for source in sorted((ROOT / "docs").rglob("*")):
        if source.is_file():
            places[source] = PAGES / source.relative_to(ROOT / "docs")
    for source, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            place.write_text(_relinked(text, source=source, place=place, places=places), encoding="utf-8")
        else:
            shutil.copy(source, place)


def _relinked(text: str, /, *, source: Path, place: Path, places: dict[Path, Path]) -> str:
    def target(link: re.Match[str]) -> str:
        image, words, path, anchor = link.groups()
        file = (source.parent / path).resolve()
        if file in places:
            return f"{image}[{words}]({os.path.relpath(places[file], place.parent)}{anchor})"
        if file.is_relative_to(ROOT / "docs") or not file.exists():
            return link[0]  # a generated page, or a broken link that the strict build reports
        return words if words.startswith("`") else f"{words} (`{file.relative_to(ROOT)}`)"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(target, part) for part in parts)


def title_of(page: Path) -> str:
    """Return the first heading of a page."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].replace("`", "").partition(":")[0].strip()
    raise SystemExit(f"{page.name} has no heading")


def navigation() -> list[dict[str, Any]]:
    """Return the sections of the site. Exits if a page stands in none, or a section names a page that is missing."""
    written: dict[str, list[Any]] = tomllib.loads((ROOT / "website" / "navigation.toml").read_text("utf-8"))["sections"]
    for module in GENERATED:
        for section, pages in module.SECTIONS.items():
            written[section].extend(pages)
    listed: list[str] = ["index.md"]

    def entry(item: Any) -> dict[str, Any]:
        if isinstance(item, str):
            listed.append(item)
            if not (PAGES / item).exists():
                raise SystemExit(f"navigation.toml names {item}, which does not exist")
            return {title_of(PAGES / item): item}
        [(title, inner)] = item.items()
        if isinstance(inner, str) and inner.endswith("/*"):
            inner = sorted(str(page.relative_to(PAGES)) for page in (PAGES / inner[:-2]).glob("*.md"))
        return {title: [entry(page) for page in inner]}

    sections = [{"Home": "index.md"}, *({title: [entry(item) for item in pages]} for title, pages in written.items())]
    present = {str(page.relative_to(PAGES)) for page in PAGES.rglob("*.md")}
    if missing := sorted(present - set(listed)):
        raise SystemExit(f"no section of navigation.toml lists {', '.join(missing)}")
    return sections


def _toml(value: Any) -> str:
    """Return a navigation entry as inline TOML."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "{ " + ", ".join(f"{_toml(name)} = {_toml(inner)}" for name, inner in value.items()) + " }"


def main() -> int:
    """Assemble the pages, render them strictly, and write `llms.txt`. Return the exit code."""
    shutil.rmtree(TARGET, ignore_errors=True)
    copy_pages()
    for module in GENERATED:
        module.write_pages(PAGES)
    sections = navigation()
    config = (ROOT / "website" / "zensical.toml").read_text(encoding="utf-8")
    paths = [str(path) for path in sorted((ROOT / "packages").iterdir()) if path.is_dir()]
    config = config.replace('site_dir = "site"\n', f'site_dir = "site"\nnav = {_toml(sections)}\n')
    extensions = [str(ROOT / "website" / "docstring_examples.py"), "griffe_pydantic"]
    config += f"extensions = {_toml(extensions)}\n"  # the last table of the file is that of the handler's options
    config += f"\n[project.plugins.mkdocstrings.handlers.python]\npaths = {_toml(paths)}\n"
    (TARGET / "zensical.toml").write_text(config, encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    rendered = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=TARGET, check=False)
    if rendered.returncode == 0:
        llms.write_index(PAGES, sections, TARGET / "site")
        print(f"the site is in {(TARGET / 'site').relative_to(ROOT)}: {len(list(PAGES.rglob('*.md')))} pages")
    return rendered.returncode


if __name__ == "__main__":
    sys.exit(main())
