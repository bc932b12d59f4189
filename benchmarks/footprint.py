"""Measure the core installation in a fresh environment: packages, megabytes, and import time.

    python benchmarks/footprint.py

Builds the wheel, installs it with its dependencies into an empty environment (which requires uv and a package index),
and counts the result. Import times are medians over fresh interpreters, in processor time, so that a busy machine gives
the same result. Each is shown next to an interpreter that imports nothing.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 9
IMPORTS = (
    ("import elytron", "import elytron"),
    ("every public name", "import elytron; [getattr(elytron, name) for name in elytron.__all__]"),
    ("the command line", "import elytron_cli.main"),
)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        python = install(home)
        site = next((home / "fresh" / "lib").glob("python*/site-packages"))
        packages = sorted(path.name.partition("-")[0] for path in site.glob("*.dist-info"))
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        print(f"packages   {len(packages):6}   {', '.join(packages)}")
        print(f"installed  {size / 1e6:6.1f} MB")
        bare = measure(python, "pass")
        print(f"bare python{bare:6.0f} ms")
        for label, statement in IMPORTS:
            print(f"{label:<18} + {measure(python, statement) - bare:.0f} ms")


def install(home: Path) -> Path:
    """Install only the distribution into a new environment in `home`, and return its Python."""
    run(["uv", "build", "--quiet", "--wheel", "--out-dir", str(home / "dist"), str(ROOT)])
    (wheel,) = (home / "dist").glob("*.whl")
    run(["uv", "venv", "--quiet", "--python", sys.executable, str(home / "fresh")])
    run(["uv", "pip", "install", "--quiet", "--python", str(home / "fresh"), str(wheel)])
    return home / "fresh" / "bin" / "python"


def measure(python: Path, statement: str) -> float:
    """Return the median milliseconds of a fresh interpreter that runs `statement`. The first run fills the caches."""
    run([str(python), "-c", statement])
    return statistics.median(timed(python, statement) for _ in range(ROUNDS))


def timed(python: Path, statement: str) -> float:
    """Return the processor time of one run in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([str(python), "-c", statement])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000


def run(command: Sequence[str]) -> None:
    """Run `command`, which must succeed."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
