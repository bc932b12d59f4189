"""Cut recorded streams of model servers at every byte, over sockets, and check what the proxy's client and memory get.

    python -m benchmarks.rigs.cuts [--every N] [--streams NAME ...]

The proxy, with an empty memory, runs in front of a local server. Each recorded stream of each dialect is cut at every
byte, or at every Nth, once by a server that dies and once by one that ends too early. The turn must be stored if and
only if the end marker was sent, or the finish reason before a clean end. The client must read the same as without the
proxy, with an error at the end of a cut stream. Exits 1 otherwise. `tests/proxy/test_streams.py` is the short form,
which tests every byte without sockets.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence

from tests.models.fake_server import EVENTS, LINES, Sent
from tests.models.streams import RECORDED, Recorded
from tests.proxy.proxy_setup import PATHS, asked, proxying

from benchmarks.rigs import tables
from elytron_core.ports.chat import ReplyFailed, ReplyFinished
from elytron_models import DIALECTS, parse_answer
from elytron_proxy.figures import ProxyFigure

_BATCH = 200


async def _cut(of: Recorded, cuts: Sequence[int], *, dies: bool) -> list[int]:
    """Return the cuts at which the client or the memory got something unexpected."""
    media_type = LINES if of.dialect == "ollama" else EVENTS
    wrong: list[int] = []
    async with proxying(*(Sent((of.data[:cut],), media_type=media_type, dies=dies) for cut in cuts)) as proxied:
        for number, cut in enumerate(cuts):
            before = proxied.app.figures[ProxyFigure.COMMITTED] + proxied.app.figures[ProxyFigure.OPENED]
            answer = await proxied.post(PATHS[of.dialect], asked(of.dialect, f"Question {number}"))
            await proxied.app.idle()
            kept = proxied.app.figures[ProxyFigure.COMMITTED] + proxied.app.figures[ProxyFigure.OPENED] - before
            is_whole = of.is_whole(cut, is_clean=not dies)
            parser = DIALECTS[of.dialect].parser("")
            direct = [*parser.feed(of.data[:cut]), *parser.end(is_clean=not dies)]
            events = parse_answer(DIALECTS[of.dialect].parser(""), (answer.content,))
            is_same = events[:-1] == direct[:-1] and isinstance(events[-1], ReplyFinished if is_whole else ReplyFailed)
            if kept != is_whole or not is_same:
                wrong.append(cut)
    return wrong


async def _run(names: Sequence[str], *, every: int) -> int:
    rows: list[dict[str, str]] = []
    failures = 0
    for name in names:
        of = RECORDED[name]
        cuts = sorted({*range(1, len(of.data) + 1, every), of.whole_at - 1, of.whole_at, len(of.data)})
        began = time.perf_counter()
        wrong: list[int] = []
        for dies in (True, False):
            for start in range(0, len(cuts), _BATCH):
                wrong += await _cut(of, cuts[start : start + _BATCH], dies=dies)
        failures += len(wrong)
        rows.append(
            {
                "stream": name,
                "bytes": str(len(of.data)),
                "cuts": str(2 * len(cuts)),
                "wrong": str(len(wrong)) + (f", first at byte {wrong[0]}" if wrong else ""),
                "seconds": f"{time.perf_counter() - began:.0f}",
            }
        )
    tables.show(rows)
    return int(failures > 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="cut at every Nth byte")
    parser.add_argument("--streams", nargs="+", choices=sorted(RECORDED), default=sorted(RECORDED), metavar="NAME")
    options = parser.parse_args(argv)
    return asyncio.run(_run(options.streams, every=options.every))


if __name__ == "__main__":
    raise SystemExit(main())
