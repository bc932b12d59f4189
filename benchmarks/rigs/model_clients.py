"""Run clients of other projects through the memory proxy, configured as `docs/how-to/model-proxy.md` says.

    python -m benchmarks.rigs.model_clients [--only vercel langchain]

The Vercel AI SDK (where npm is available) and LangChain are installed into a temporary folder. Each is configured as in
the table of that page, tells a local model server one thing, and asks for it in another conversation. The client must
receive the server's answer, and the server must be shown what was said before. Exits 1 otherwise.
"""

import argparse
import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.models.streams import TEXTS
from tests.proxy.proxy_setup import Proxied, proxying, recorded

from benchmarks.rigs import tables

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "model-proxy.md"
URL = "http://127.0.0.1:8787"
TOLD, ASKED = "My boat is called Petrel.", "What is my boat called?"
_WAIT_S = 240
_VERCEL = """
import {{ createOpenAI }} from "@ai-sdk/openai";
import {{ streamText }} from "ai";
const KEY = "none";
const openai = {setup};
for (const prompt of {said}) {{
  console.log(JSON.stringify(await streamText({{ model: openai{dialect}("m"), prompt }}).text));
}}
"""
_LANGCHAIN = """
import json
from langchain_openai import ChatOpenAI
KEY = "none"
model = {setup}
for said in {said}:
    print(json.dumps("".join(part.content for part in model.stream(said))))
"""


def setup_of(client: str, url: str) -> str:
    """Return the configuration in the page's table for a client, with the proxy's actual address."""
    found = re.search(rf"^\| {re.escape(client)} \| `([^`]+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"the page has no row of {client}"
    return found[1].replace(URL, url)


async def _run(*command: str, folder: Path) -> str:
    """Return the output of a command. Raises AssertionError with the end of the output if it failed."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(_WAIT_S):
        told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()[-2_000:]
    return told.decode()


async def _is_remembered(proxied: Proxied, read: str) -> bool:
    """Return whether the client received the server's answer, and the server was shown what was said before."""
    await proxied.app.idle()
    words = [json.loads(line) for line in read.splitlines() if line.startswith('"')]
    last = proxied.upstream.asked[-1].raw.decode()
    return words == ["".join(TEXTS)] * 2 and "called Petrel" in last and TOLD in await proxied.kept()


async def vercel(folder: Path, dialect: str) -> bool:
    """Run the Vercel AI SDK with one dialect."""
    if not (folder / "node_modules").is_dir():
        (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
        flags = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        await _run("npm", "install", *flags, "ai@7.0.173", "@ai-sdk/openai@4.0.118", folder=folder)
    async with proxying(recorded(dialect)) as proxied:
        setup = setup_of("Vercel AI SDK", proxied.url)
        script = _VERCEL.format(
            setup=setup, said=json.dumps([TOLD, ASKED]), dialect=".chat" if dialect == "chat" else ""
        )
        (folder / "call.js").write_text(script, encoding="utf-8")
        return await _is_remembered(proxied, await _run("node", "call.js", folder=folder))


async def langchain(folder: Path, dialect: str) -> bool:
    """Run LangChain's OpenAI client."""
    async with proxying(recorded(dialect)) as proxied:
        script = _LANGCHAIN.format(setup=setup_of("LangChain", proxied.url), said=json.dumps([TOLD, ASKED]))
        (folder / "call.py").write_text(script, encoding="utf-8")
        command = ("uv", "run", "--quiet", "--no-project", "--python", sys.executable, "--with", "langchain-openai>=1")
        return await _is_remembered(proxied, await _run(*command, "python", "call.py", folder=folder))


RUNS = {
    "vercel": ("npm", ("responses", "chat"), vercel),
    "langchain": ("uv", ("chat",), langchain),
}


async def _all(names: Sequence[str]) -> int:
    rows: list[dict[str, str]] = []
    is_well = True
    for name in names:
        tool, dialects, work = RUNS[name]
        for dialect in dialects:
            if shutil.which(tool) is None:
                rows.append({"client": name, "dialect": dialect, "remembers": f"not run: no {tool} here"})
                continue
            with tempfile.TemporaryDirectory() as folder:
                remembers = await work(Path(folder), dialect)
            is_well = is_well and remembers
            rows.append({"client": name, "dialect": dialect, "remembers": "yes" if remembers else "NO"})
    tables.show(rows)
    return 0 if is_well else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(RUNS), default=sorted(RUNS), metavar="CLIENT")
    options = parser.parse_args(argv)
    return asyncio.run(_all(options.only))


if __name__ == "__main__":
    raise SystemExit(main())
