"""Peers, each in its own environment and process, with the same texts and the same precomputed vectors.

    python -m benchmarks.peers install FOLDER     creates the environments (requires pip and a package index)
    python -m benchmarks.peers                    names the peers

None of them embeds or calls a model. Their stores keep their default settings. LangGraph's SQLite store requires an
interpreter whose sqlite3 loads extensions; create its environment manually where the default one does not.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = {
    "langgraph-sqlite": ("langgraph", "langgraph-checkpoint-sqlite", "numpy"),
    "langgraph-memory": ("langgraph", "numpy"),
    "chroma": ("chromadb",),
    "mem0": ("mem0ai", "numpy"),
}
ROOT = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Peer:
    """One peer's process. It reads the number of a question, or of a text to add, per line, and answers with a line."""

    name: str
    python: Path
    process: asyncio.subprocess.Process | None = field(default=None)
    missed: int = 0
    """Number of added texts that it did not find right afterwards."""

    async def start(self, size: int, folder: Path, /) -> bool:
        """Start the process, let it load the corpus, and return whether it did."""
        paths = (ROOT, *(ROOT / "packages" / name for name in ("core", "index")))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "ANONYMIZED_TELEMETRY": "False",
            "MEM0_TELEMETRY": "False",
            "OPENAI_API_KEY": "x",
        }
        place = str(folder / f"{self.name}-{size}")
        self.process = await asyncio.create_subprocess_exec(
            str(self.python), "-m", "benchmarks.peer_process", self.name, str(size), place,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=environment, cwd=ROOT,
        )  # fmt: skip
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if line.strip() == b"ready":
                return True
        assert self.process.stderr is not None
        told = (await self.process.stderr.read()).decode(errors="replace").strip().splitlines()
        print(f"{self.name} did not start: {told[-1] if told else 'no reason given'}", file=sys.stderr)
        return False

    async def recall(self, number: int, /) -> object:
        """Ask a question."""
        return await self._answer(f"{number}", b"found ")

    async def add(self, number: int, /) -> float:
        """Add a text and return the seconds that took, by the peer's own clock."""
        spent, is_found = (await self._answer(f"+{number}", b"added ")).split()
        self.missed += is_found != b"1"
        return float(spent)

    async def _answer(self, asked: str, head: bytes) -> bytes:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{asked}\n".encode())
        while line := await self.process.stdout.readline():
            if line.startswith(head):
                return line.removeprefix(head)
        raise AssertionError(f"{self.name} ended")

    async def stop(self) -> None:
        """End the process."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            await self.process.wait()


def peers_in(folder: Path | None, /) -> list[Peer]:
    """Return the peers that have an environment in `folder`."""
    if folder is None:
        return []
    found = {name: folder / name / "bin" / "python" for name in PACKAGES}
    return [Peer(name, python) for name, python in found.items() if python.exists()]


def install(folder: Path, /) -> None:
    """Create an environment for each peer."""
    for name, packages in PACKAGES.items():
        venv.create(folder / name, with_pip=True)
        python = folder / name / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pydantic", "PyStemmer", *packages], check=True)
        print(f"{name}: {', '.join(packages)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["install"])
    parser.add_argument("folder", nargs="?", type=Path)
    told = parser.parse_args()
    if told.what == "install" and told.folder is not None:
        install(told.folder)
        return
    print("\n".join(PACKAGES))


if __name__ == "__main__":
    main()
