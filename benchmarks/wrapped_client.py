"""Measure what `elytron.wrap` adds to a model call: the time of a wrapped call and a plain one, in alternation.

    python -m benchmarks.wrapped_client [--short]

The model server is a separate process that answers at once, or after the response time of a fast model. The client is
the package `openai`, the store a SQLite file with a chat of some length. A ratio is of medians.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from openai import OpenAI

import elytron

MEMORIES = 500
CALLS = 200
ANSWER_MS = (0, 250)
"""Response time of the model: none, and that of a fast model's short answer."""
GOAL = 1.5

_SERVER = """
import asyncio, sys
BODY = b'{"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Petrel."}}]}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY)
async def serve(reader, writer):
    try:
        while True:
            rows = (await reader.readuntil(b"\\r\\n\\r\\n")).lower().split(b"\\r\\n")
            await reader.readexactly(next(int(row[15:]) for row in rows if row.startswith(b"content-length:")))
            await asyncio.sleep(int(sys.argv[1]) / 1000)
            writer.write(HEAD + BODY)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def model_server(answer_ms: int) -> Generator[str]:
    """Yield the address of a model server."""
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(answer_ms)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    finally:
        server.terminate()
        server.wait()


def call_ms(client: OpenAI, number: int) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"What is boat {number} called?"}])
    return (time.perf_counter() - began) * 1000


def measure(answer_ms: int, *, calls: int) -> tuple[float, float]:
    """Return the median milliseconds of a plain call and of a wrapped one."""
    with (
        model_server(answer_ms) as url,
        tempfile.TemporaryDirectory() as folder,
        elytron.open(Path(folder, "memory.db"), space="ada") as memory,
        OpenAI(base_url=url, api_key="none") as bare,
    ):
        memory.add([f"Boat {number} is called Petrel {number}." for number in range(MEMORIES)])
        wrapped = elytron.wrap(bare, memory)
        times = [(call_ms(bare, number), call_ms(wrapped, number)) for number in range(calls + 5)][5:]
    return median(each[0] for each in times), median(each[1] for each in times)


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a tenth of the calls")
    calls = CALLS // 10 if parser.parse_args().short else CALLS
    print("the model takes, ms | bare, ms | wrapped, ms | ratio")
    for answer_ms in ANSWER_MS:
        bare, wrapped = measure(answer_ms, calls=calls)
        print(f"{answer_ms} | {bare:.1f} | {wrapped:.1f} | {wrapped / bare:.2f} (goal: at most {GOAL})")


if __name__ == "__main__":
    main()
