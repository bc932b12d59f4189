"""Measure what the memory proxy adds: time to first byte against a plain relay, and how much of a chat stays cached.

    python -m benchmarks.llm_proxy [--short] [--litellm [COMMAND]]

A model server, a plain relay, the proxy and optionally LiteLLM's proxy are separate processes and alternate. Ratios are
ratios of medians. LiteLLM is run by COMMAND, or else by `uv` in its own environment, where it is installed first. The
cached share is computed from the requests that reach the model server: how much of each is a prefix shared with the
previous one, as a provider's prompt cache would see it. The benchmark does not prompt, and prints one table.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.rigs import tables

CLI = (sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()")
CHUNKS = 40
STREAMS = 1_000
STREAMS_MIB = 300
CHAT_TURNS = 50
CHARS = 1_500
CACHED_GOAL = 0.95
ADDED_GOAL_MS = 1.0
LITELLM_GOAL = 0.3
LITELLM = ("uv", "tool", "run", "--quiet", "--from", "litellm[proxy]", "litellm")
LITELLM_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
INSTALL_S, START_S = 240, 180
"""How long LiteLLM may take to install, and to respond."""

_UPSTREAM = """
import asyncio, json, sys
chunks = int(sys.argv[1])
def event(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\\n\\n"
BODY = [event({"role": "assistant", "content": f"word {n} "}) for n in range(chunks)]
BODY += [event({}, "stop"), b"data: [DONE]\\n\\n"]
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            rows = head.lower().split(b"\\r\\n")
            length = [int(row.split(b":")[1]) for row in rows if row.startswith(b"content-length")]
            body = json.loads(await reader.readexactly(length[0])) if length else {}
            writer.write(HEAD)
            for piece in BODY:
                writer.write(b"%x\\r\\n%s\\r\\n" % (len(piece), piece))
                await asyncio.sleep(body.get("user") == "slow" and 0.05 or 0)
                await writer.drain()
            writer.write(b"0\\r\\n\\r\\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

_RELAY = """
import asyncio, socket, sys, httpx, uvicorn, uvloop
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route
client = httpx.AsyncClient(timeout=600)
async def relay(request):
    sent = client.build_request("POST", sys.argv[1] + request.url.path, content=await request.body(),
                                headers={"content-type": "application/json", "accept-encoding": "identity"})
    answer = await client.send(sent, stream=True)
    return StreamingResponse(answer.aiter_raw(), media_type=answer.headers["content-type"])
app = Starlette(routes=[Route("/v1/chat/completions", relay, methods=["POST"])])
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as port:
    port.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{port.getsockname()[1]}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[port]))
"""


@asynccontextmanager
async def process(
    *command: str, folder: str, pattern: str = r"http://\S+", **environment: str
) -> AsyncGenerator[tuple[str, int]]:
    """Yield the address that a server prints, and its process id."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    server = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=kept | environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert server.stdout is not None
    try:
        found = None
        while found is None:
            line = (await server.stdout.readline()).decode()
            assert line, "a server ended before it listened"
            found = re.search(pattern, line)
        yield found[0], server.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        await server.wait()


def body(said: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "stream": True, "messages": [{"role": "user", "content": said}], **more}


async def first_byte(client: httpx.AsyncClient, url: str, said: str, **headers: str) -> tuple[float, float]:
    """Return the milliseconds to the first byte of a response, and the time that recall reports for itself."""
    began = time.perf_counter()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body(said), headers=named) as answer:
        assert answer.status_code == 200, await answer.aread()
        took = None
        async for _ in answer.aiter_raw():
            took = took or (time.perf_counter() - began) * 1000
    recall = re.search(r"recall;dur=([\d.]+)", answer.headers.get("server-timing", ""))
    return took or 0.0, float(recall[1]) if recall is not None else 0.0


async def added(found: dict[str, str], *, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the medians for each server. Servers alternate."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    async with httpx.AsyncClient(timeout=60) as client:
        for number in range(rounds + 5):
            for name, url in found.items():
                headers = {"X_Elytron_Memory": "off"} if name == "proxy, off" else {"Authorization": "Bearer sk-x"}
                if name == "proxy":
                    headers = {"X_Elytron_Memory": "read"}
                told = await first_byte(client, url, f"What did I say about subject {number % 97}?", **headers)
                if number >= 5:
                    times[name].append(told)
    return {
        name: (statistics.median(time for time, _ in measured), statistics.median(recall for _, recall in measured))
        for name, measured in times.items()
    }


async def at_once(url: str, pid: int, *, streams: int) -> tuple[float, float]:
    """Return the seconds that `streams` concurrent streams take, and the peak memory of the process in MiB."""

    async def one(client: httpx.AsyncClient, number: int) -> None:
        said = body(f"Stream {number}", user="slow")
        answer = await client.post(f"{url}/v1/chat/completions", json=said)
        assert answer.content.endswith(b"[DONE]\n\n"), answer.status_code

    limits = httpx.Limits(max_connections=None)
    began = time.perf_counter()
    async with httpx.AsyncClient(timeout=300, limits=limits) as client:
        await asyncio.gather(*(one(client, number) for number in range(streams)))
    took = time.perf_counter() - began
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return took, int(peak[1]) / 1024 if peak is not None else 0.0


def cached_share(requests: Sequence[str]) -> float:
    """Return the share of all requests that repeats the beginning of the previous one."""
    return cached(requests) / sum(map(len, requests[1:]))


def cached(requests: Sequence[str]) -> int:
    """Return the number of characters in all requests that repeat the beginning of the previous one."""
    return sum(_common(before, after) for before, after in pairwise(requests))


def _common(before: str, after: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(before), len(after)))


def talk(turns: int) -> tuple[list[str], list[str], list[str]]:
    """Return what is known before a chat, what the user says in it, and answers of several sentences."""
    file = Path(__file__).parents[1] / "fixtures" / "conversations" / "harbour.jsonl"
    texts = [json.loads(line)["content"] for line in file.read_bytes().splitlines()]
    known, rest = texts[: -2 * turns], texts[-2 * turns :]
    answers = [" ".join(known[place * 7 : place * 7 + 12]) for place in range(turns)]
    return known, rest[::2][:turns], answers


async def chat_requests(placement: str | None, *, turns: int, max_chars: int = CHARS) -> list[str]:
    """Return the requests that reach the model in a chat of `turns` turns; without memory for None."""
    import elytron
    from elytron_adapter.access_keys import DevelopmentCallers
    from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
    from elytron_proxy import BlockPlacement, MemoryUse, ModelUpstream, ProxyApp, ProxySettings

    seen: list[str] = []

    async def model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        rows = head.lower().split(b"\r\n")
        length = next(int(row.split(b":")[1]) for row in rows if row.startswith(b"content-length"))
        asked = json.loads(await reader.readexactly(length))
        seen.append("".join(f"\n{message['role']}\n{message['content']}" for message in asked["messages"]))
        told = {
            "message": {"role": "assistant", "content": answers[len(seen) - 1]},
            "done": True,
            "done_reason": "stop",
        }
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + json.dumps(told).encode() + b"\n")
        await writer.drain()
        writer.close()

    known, said, answers = talk(turns)
    server = await asyncio.start_server(model, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with elytron.open("memory:", space="default") as memory:
        for text in known:
            await memory.add(text)
        settings = ProxySettings(
            upstreams=(ModelUpstream(url),),
            memory=MemoryUse.OFF if placement is None else MemoryUse.ON,
            placement=BlockPlacement(placement or "tail"),
            max_chars=max_chars,
        )
        app = ProxyApp(CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers()), settings)
        transport = httpx.ASGITransport(app=app)
        async with app.running(), httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
            messages = [{"role": "system", "content": "You are an assistant of few words. " * 40}]
            for question, answer in zip(said, answers, strict=True):
                messages.append({"role": "user", "content": question})
                await client.post("/api/chat", json={"model": "m", "messages": messages})
                await app.idle()
                messages.append({"role": "assistant", "content": answer})
    server.close()
    return seen


async def main(*, short: bool, litellm: Sequence[str]) -> None:
    if tuple(litellm) == LITELLM:
        await _installed()
    turns, rounds, streams = (200, 40, 100) if short else (10_000, 200, STREAMS)
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(
            json.dumps({"role": "user", "content": f"About subject {n % 97} I said that number {n} is mine."}) + "\n"
            for n in range(turns)
        )
        Path(folder, "talk.jsonl").write_text(lines, encoding="utf-8")
        filling = await asyncio.create_subprocess_exec(
            *CLI, "import", "talk.jsonl", "--store", "m.db", cwd=folder, stdout=asyncio.subprocess.DEVNULL
        )
        assert await filling.wait() == 0
        async with contextlib.AsyncExitStack() as stack:
            upstream, _ = await stack.enter_async_context(
                process(sys.executable, "-c", _UPSTREAM, str(CHUNKS), folder=folder)
            )
            relay, _ = await stack.enter_async_context(process(sys.executable, "-c", _RELAY, upstream, folder=folder))
            command = (*CLI, "proxy", "--upstream", upstream, "--port", "0", "--store", "m.db", "--no-json")
            proxy, pid = await stack.enter_async_context(process(*command, folder=folder))
            found = {"direct": upstream, "relay": relay, "proxy, off": proxy, "proxy": proxy}
            if litellm:
                found["litellm"] = await stack.enter_async_context(_litellm(litellm, upstream, folder))
            times = await added(found, rounds=rounds)
            took, mib = await at_once(proxy, pid, streams=streams)
    _show(times, turns=turns, streams=streams, took=took, mib=mib, cached_rows=await _cached_rows())


async def _cached_rows() -> list[tuple[str, str, str]]:
    """Return, for each placement of the block, how much of a chat stays cached."""
    plain = await chat_requests(None, turns=CHAT_TURNS)
    rows: list[tuple[str, str, str]] = []
    for placement, chars in (("tail", CHARS), ("tail", 4_096), ("system", CHARS), ("before", CHARS)):
        found = await chat_requests(placement, turns=CHAT_TURNS, max_chars=chars)
        name = f"{placement}, {chars} characters"
        rows.append((f"cached, {name}: of that without memory", f"{cached(found) / cached(plain):.3f}", ""))
        share = cached_share(found) / cached_share(plain)
        goal = f">= {CACHED_GOAL}" if (placement, chars) == ("tail", CHARS) else ""
        rows.append((f"cached share, {name}: of that without memory", f"{share:.3f}", goal))
    return rows


def _show(
    times: dict[str, tuple[float, float]],
    *,
    turns: int,
    streams: int,
    took: float,
    mib: float,
    cached_rows: list[tuple[str, str, str]],
) -> None:
    """Print one table of all results with their goals."""
    direct, recall = times["direct"][0], times["proxy"][1]
    rows = [(f"first byte, {name}", f"{time_ms:.2f} ms", "") for name, (time_ms, _) in times.items()]
    rows += [(f"added, {name}", f"{times[name][0] - direct:.2f} ms", "") for name in times if name != "direct"]
    beyond = times["proxy"][0] - times["relay"][0] - recall
    rows.append((f"recall over {turns} turns", f"{recall:.2f} ms", ""))
    rows.append(("added beyond recall and the relay", f"{beyond:.2f} ms", f"<= {ADDED_GOAL_MS}"))
    if "litellm" in times:
        ratio = (times["proxy"][0] - direct) / (times["litellm"][0] - direct)
        rows.append(("added, beside LiteLLM's", f"{ratio:.2f}", f"<= {LITELLM_GOAL}"))
    rows.append((f"{streams} streams at once", f"{took:.1f} s", ""))
    rows.append(("peak memory of the proxy", f"{mib:.0f} MiB", f"<= {STREAMS_MIB}"))
    tables.show([{"what": what, "measured": told, "goal": goal} for what, told, goal in [*rows, *cached_rows]])


async def _installed() -> None:
    """Install LiteLLM before anything is measured. Raises SystemExit with uv's output if that fails."""
    process = await asyncio.create_subprocess_exec(
        *LITELLM[:-1], "python", "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(INSTALL_S):
        told, _ = await process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"LiteLLM cannot be installed:\n{told.decode()[-2_000:]}")


@asynccontextmanager
async def _litellm(command: Sequence[str], upstream: str, folder: str) -> AsyncGenerator[str]:
    """Yield the address of LiteLLM's proxy in front of the same model server."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {
        "model_name": "m",
        "litellm_params": {"model": "openai/m", "api_base": f"{upstream}/v1", "api_key": "none"},
    }
    Path(folder, "litellm.yaml").write_text(json.dumps({"model_list": [config]}), encoding="utf-8")
    server = await asyncio.create_subprocess_exec(
        *command, "--config", "litellm.yaml", "--port", str(port), cwd=folder,
        env=os.environ | LITELLM_ENVIRONMENT, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client:
            async with asyncio.timeout(START_S):
                while server.returncode is None:
                    with contextlib.suppress(httpx.TransportError):
                        if (await client.get(f"{url}/health/liveliness")).status_code == 200:
                            break
                    await asyncio.sleep(0.2)
        assert server.returncode is None, "LiteLLM ended before it answered"
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        await server.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--litellm", nargs="?", const=shlex.join(LITELLM), default="", metavar="COMMAND")
    given = parser.parse_args()
    asyncio.run(main(short=given.short, litellm=shlex.split(given.litellm)))
