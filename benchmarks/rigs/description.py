"""Send a server requests that its OpenAPI document allows and forbids, and check each response against it.

    python -m benchmarks.rigs.description [--seconds N] [--seed N] [--short]

Schemathesis sends requests to a server with keys on SQLite, once as a user and once as an operator. No response may be
a server error. Each must be documented with its status, type, headers and shape. Requests that violate the document
must be rejected, and what requires a key must be inaccessible without one. After the last response, the server must
still be ready, end with exit code 0, and leave a sound store. Excluded are streams, archives, which no description
tells how to create, and operations that would write files at arbitrary places or end the server. Exits 1 if any of this
fails.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from elytron_adapter.http.archives import MEDIA_TYPE

_CLI = (sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()")
_FUZZER = (sys.executable, "-m", "schemathesis.cli")
_SECONDS = 600
_SHORT_SEED = 1
_SHORT_SECONDS = 20
_EXAMPLES = 60
_SHORT_EXAMPLES = 2
_WAIT_S = 120.0
_SLACK_S = 240.0
_LOG_CHARS = 20_000
_BESIDE = ("events",)
_FILES = ("export", "import", "memory_export", "memory_import", "add_agent_skill_dir", "close", "shutdown")
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, and the keys of an operator and a user."""

    process: asyncio.subprocess.Process
    url: str
    operator: str
    user: str


@asynccontextmanager
async def running(folder: Path, /) -> AsyncGenerator[Server]:
    """Run a server on a new store in `folder`. At the end it is asked to stop, and must stop cleanly."""
    store = str(folder / "m.db")
    told = await _told("access", "add", "--kind", "user", "--space", "ada", "--label", "fuzzer", "--store", store)
    errors = (folder / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *_CLI, "serve", "--port", "0", "--json", "--operator-key", "--calls-per-minute", "0",
        "--wrong-credentials-per-minute", "0", "--store", store, "--log-level", "warning",
        stdout=asyncio.subprocess.PIPE, stderr=errors, cwd=folder,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_WAIT_S):
            said = json.loads(await process.stdout.readuntil(b"}"))
        yield Server(process, said["address"], said["operator_key"], told["key"])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        errors.close()


async def fuzzed(
    server: Server, key: str, /, *, without: Sequence[str], seconds: float, examples: int, seed: int, folder: Path
) -> str | None:
    """Send requests to all operations except `without`, and return the problems that the fuzzer found, or None."""
    options = [option for name in without for option in ("--exclude-operation-id", name)]
    process = await asyncio.create_subprocess_exec(
        *_FUZZER, "run", f"{server.url}/openapi/all.json", "--header", f"Authorization: Bearer {key}", *options,
        "--checks", ",".join(_CHECKS), "--max-time", str(int(seconds)), "--max-examples", str(examples),
        "--seed", str(seed), "--no-shrink", "--request-timeout", "30", "--generation-database", ":memory:",
        "--suppress-health-check", "all", "--no-color", "--continue-on-failure", "--warnings", "off",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=folder,
    )  # fmt: skip
    async with asyncio.timeout(seconds + _SLACK_S):
        told, _ = await process.communicate()
    said = told.decode(errors="replace")
    print(*(line.strip() for line in said.splitlines() if " generated" in line))
    return said if process.returncode else None


async def run(folder: Path, /, *, seconds: float, examples: int, seed: int) -> list[str]:
    """Return all problems."""
    wrong: list[str] = []
    async with running(folder) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=_WAIT_S) as client:
            # The document is generated on first use, which may take longer than the fuzzer waits.
            described = await client.get("/openapi/all.json", headers={"Authorization": f"Bearer {server.user}"})
        beside = (*_BESIDE, *_archive_senders(described.json()))
        shares = (("a user", server.user, beside, 0.6), ("an operator", server.operator, (*beside, *_FILES), 0.4))
        for who, key, without, share in shares:
            found = await fuzzed(
                server, key, without=without, seconds=seconds * share, examples=examples, seed=seed, folder=folder
            )
            if found is not None:
                wrong.append(f"asked as {who}:\n{found}")
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=_WAIT_S) as client:
            ready = await client.get("/readyz")
            if ready.status_code != 200:
                wrong.append(f"the server is not ready any more: {ready.status_code}")
    if server.process.returncode != 0:
        wrong.append(f"the server ended with {server.process.returncode}")
    if wrong:
        wrong.append(f"the end of the server's log:\n{(folder / 'log').read_text()[-_LOG_CHARS:]}")
    checked = await _told("inspect", "--check", "--store", str(folder / "m.db"), "--space", "ada")
    if not checked["store_check"]["ok"]:
        wrong.append(f"the store is not sound: {checked['store_check']}, {checked['journal_account']}")
    return wrong


def _archive_senders(described: Any) -> list[str]:
    """Return the operations whose input is an archive, which the fuzzer cannot create."""
    operations = [one for path in described["paths"].values() for one in path.values() if "operationId" in one]
    return [one["operationId"] for one in operations if MEDIA_TYPE in one.get("requestBody", {}).get("content", {})]


async def _told(*words: str) -> Any:
    """Return the report of a command, whatever its exit code."""
    process = await asyncio.create_subprocess_exec(*_CLI, *words, "--json", stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    return json.loads(told)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=None, help="else another each time")
    parser.add_argument("--short", action="store_true", help=f"{_SHORT_SECONDS} seconds, the same requests each time")
    options = parser.parse_args(argv)
    chosen = _SHORT_SEED if options.short else random.SystemRandom().randrange(2**32)
    seed = options.seed if options.seed is not None else chosen
    seconds = options.seconds or (_SHORT_SECONDS if options.short else _SECONDS)
    os.environ.pop("ELYTRON_STORE", None)
    os.environ["NO_PROXY"] = "*"  # the fuzzer would otherwise use a globally configured proxy
    with tempfile.TemporaryDirectory(prefix="elytron-description-") as folder:
        examples = _SHORT_EXAMPLES if options.short else _EXAMPLES
        wrong = asyncio.run(run(Path(folder), seconds=seconds, examples=examples, seed=seed))
    for problem in wrong:
        print(problem)
    print(f"{seconds:.0f} seconds, seed {seed}: {len(wrong) or 'nothing'} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
