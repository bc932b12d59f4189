"""Write the Python of every page to a folder, so that a type checker reads it as the editor of its reader does.

Beside them goes a configuration with which one run of it reads the whole checkout too. With `--frameworks`, these are
the pages and modules that need an agent framework, and else all others. Programs that use frameworks are left out: the
types of frameworks are too partial for them.
"""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

from frameworks import FOLDERS, adapter_modules, adapter_pages, adapter_programs

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def module(page: Path) -> str:
    """Return the Python of a page as one function, where `await` may stand; lines stand where the page has them."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for found in _FENCE.finditer(text):
        first = text.count("\n", 0, found.start(1))
        for number, line in enumerate(found[1].splitlines(), first):
            lines[number] = f"    {line}" if line else ""
    lines[0] = "async def page():"
    return "\n".join([*lines, "    ...", "# pyright: basic"]) + "\n"


def main(folder: Path, environment: str | None = None) -> None:
    of_adapters = adapter_pages(environment)
    of_others = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in of_adapters if environment else [page for page in of_others if page not in of_adapters]:
        if _FENCE.search(page.read_text(encoding="utf-8")):
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts)
            folder.joinpath(f"{name}.py").write_text(module(page), encoding="utf-8")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    up = Path(os.path.relpath(ROOT, folder))
    modules = [path.relative_to(ROOT).as_posix() for path in adapter_modules(environment)]
    if environment:
        programs = [path.relative_to(ROOT).as_posix() for path in adapter_programs(environment)]
        config["include"], config["venv"] = [*programs, *modules], f".{environment}-venv"
        config["extraPaths"] = [*config["extraPaths"], "examples/frameworks"]
    config["exclude"] = [] if environment else [(up / name).as_posix() for name in (*FOLDERS, *modules)]
    config["exclude"] += ["**/node_modules", "**/__pycache__", "**/.*"]
    config["include"] = [".", *((up / name).as_posix() for name in config["include"])]
    config["extraPaths"] = [(up / name).as_posix() for name in (".", *config["extraPaths"])]
    config["venvPath"] = up.as_posix()
    folder.joinpath("pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
