"""Fill in what only a release knows: `python .ci/release/prepare.py --repository URL [--documentation URL]`.

It adds the table of project URLs to `pyproject.toml`, and the repository to the TypeScript client's `package.json`,
whose provenance names it. It makes the relative links of `README.md` absolute, since an index page has no files next
to it. Run it in a checkout that is built and thrown away; nothing is committed.
"""

import argparse
import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CLIENT = "clients/typescript"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
IMAGES = {".png", ".svg", ".jpg"}


def absolute_readme(text: str, /, *, repository: str, revision: str) -> str:
    """Return `text` with links to files of the repository at `revision`."""

    def absolute(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        kind = "raw" if Path(path.partition("#")[0]).suffix in IMAGES else "blob"
        return f"{mark}[{words}]({repository}/{kind}/{revision}/{path})"

    return _LINK.sub(absolute, text)


def with_urls(text: str, /, *, repository: str, documentation: str | None, revision: str) -> str:
    """Return the project file with its table of URLs. Raises SystemExit if it has one already."""
    if "[project.urls]" in text:
        raise SystemExit("pyproject.toml has a table of project URLs already")
    urls = {
        "Documentation": documentation or f"{repository}/tree/{revision}/docs",
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{revision}/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    return text.replace("[project.scripts]", f"[project.urls]\n{table}\n[project.scripts]", 1)


def with_repository(text: str, /, *, repository: str) -> str:
    """Return the client's package file with its place in the repository."""
    place = {"type": "git", "url": f"git+{repository}.git", "directory": CLIENT}
    return json.dumps(json.loads(text) | {"repository": place}, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", required=True, help="address of the repository, without a slash at its end")
    parser.add_argument("--documentation", help="address of the documentation site")
    arguments = parser.parse_args()
    project, readme = ROOT / "pyproject.toml", ROOT / "README.md"
    text = project.read_text(encoding="utf-8")
    revision = f"v{tomllib.loads(text)['project']['version']}"
    repository = arguments.repository.rstrip("/")
    written = with_urls(text, repository=repository, documentation=arguments.documentation, revision=revision)
    project.write_text(written, encoding="utf-8")
    links = absolute_readme(readme.read_text(encoding="utf-8"), repository=repository, revision=revision)
    readme.write_text(links, encoding="utf-8")
    package = ROOT / CLIENT / "package.json"
    package.write_text(with_repository(package.read_text(encoding="utf-8"), repository=repository), encoding="utf-8")


if __name__ == "__main__":
    main()
