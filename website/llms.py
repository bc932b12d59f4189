"""Write `llms.txt`, the site's index for language models, and each page's Markdown next to its HTML."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADING = """# Elytron

> Governed memory for AI agents, in Python: it stores what was said as evidence, admits beliefs from it, recalls and
> projects them into a model's context, and proves what it stored, showed and erased.
"""


def _summary(page: Path) -> str:
    """Return the first sentence of a page's first paragraph."""
    paragraph: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines()[1:]:
        if line.strip() and not line.startswith(("#", "|", "```", ":::", "!", "<")):
            paragraph.append(line.strip())
        elif paragraph:
            break
    return " ".join(paragraph).partition(". ")[0].rstrip(".:")


def _entries(item: Any) -> Iterator[tuple[str, str]]:
    [(title, inner)] = item.items()
    if isinstance(inner, str):
        yield title, inner
    else:
        for entry in inner:
            yield from _entries(entry)


def write_index(pages: Path, sections: list[dict[str, Any]], site: Path, /) -> None:
    """Write `llms.txt` and copy every page's Markdown into `site`."""
    lines = [HEADING]
    for section in sections:
        [(title, inner)] = section.items()
        if isinstance(inner, str):
            continue
        lines.append(f"## {title}\n")
        for name, path in _entries(section):
            summary = _summary(pages / path)
            lines.append(f"- [{name}]({path})" + (f": {summary}" if summary else ""))
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    for page in pages.rglob("*.md"):
        copy = site / page.relative_to(pages)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
