"""Find the test files related to a module, by direct and indirect imports and by name."""

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

_FAR = 6
_NAMED = 3
_OWN = 2
_ALIKE_CHARS = 4
_APART = frozenset({"gates", "rigs"})


def modules_below(root: Path, named: Iterable[str], /) -> list[Path]:
    """Return the modules that files or folders of packages name, relative to `root`. Raises SystemExit."""
    found: set[Path] = set()
    for name in named:
        paths = [path for path in (root / "packages").glob(f"*/{name}") if path.exists()]
        if not paths:
            raise SystemExit(f"no module or folder {name!r} in packages")
        for path in paths:
            found.update(path.rglob("*.py") if path.is_dir() else [path])
    return sorted(path.relative_to(root) for path in found if path.name != "__init__.py")


class Imports:
    """The imports between files of a checkout."""

    def __init__(self, folder: Path, /) -> None:
        self._importers: dict[str, set[str]] = {}
        packages = {
            _dotted(path.relative_to(home)) for home in (folder / "packages").iterdir() for path in home.rglob("*.py")
        }
        for home in (folder / "packages").iterdir():
            for path in home.rglob("*.py"):
                self._note(path, _dotted(path.relative_to(home)), packages)
        self._tests = [
            path.relative_to(folder).as_posix()
            for path in sorted((folder / "tests").rglob("test_*.py"))
            if not _APART.intersection(path.parts)
        ]
        for test in self._tests:
            self._note(folder / test, test, packages)

    def tests_of(self, module: Path, /) -> Sequence[str]:
        """Return the test files related to `module`, the most closely related first.

        Closest are files that import it, then those with a name like it or its folder, then those in its package's
        folder.
        """
        steps: dict[str, int] = {}
        ring = {_dotted(Path(*module.parts[2:]))}
        for step in range(_FAR):
            steps |= dict.fromkeys(ring, step)
            ring = {other for each in ring for other in self._importers.get(each, ())} - steps.keys()

        def distance(test: str) -> tuple[int, str]:
            words = Path(test).stem.split("_")[1:]
            is_alike = any(_is_alike(word, name) for word in words for name in (module.stem, *module.parts[3:-1]))
            is_own = Path(test).parts[1] == module.parts[1]
            return steps.get(test, _FAR) - _NAMED * is_alike - _OWN * is_own, test

        return sorted((test for test in self._tests if distance(test)[0] < _FAR), key=distance)

    def _note(self, path: Path, name: str, packages: set[str]) -> None:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    imported = {alias.name for alias in names}
                case ast.ImportFrom(module=str(module), names=names):
                    imported = {module, *(f"{module}.{alias.name}" for alias in names)}
                case _:
                    continue
            for other in imported & packages:
                self._importers.setdefault(other, set()).add(name)


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _is_alike(word: str, stem: str) -> bool:
    return any(word[:_ALIKE_CHARS] == part[:_ALIKE_CHARS] for part in stem.split("_") if len(part) >= _ALIKE_CHARS)
