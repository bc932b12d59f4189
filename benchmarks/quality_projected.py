"""Measure the share of evidence in a projected block of limited tokens, against the first hits that fill as many.

    python -m benchmarks.quality_projected [--long] [--unseen] [--small] [--ordinary] [--data FILE] [--only NAME ...]

The sets are those of `benchmarks.quality`. Evidence counts only if what is asked for can be read: of a truncated long
answer, the relevant sentence must be present. "Hits" are those of recall, each complete, until the next one does not
fit. A token is four characters. The last line is the share of questions with all of their evidence.
"""

import argparse
import asyncio
import statistics
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.quality_asked import add_sets, chosen
from benchmarks.quality_sets import APART, UNANSWERED, Question, Told
from benchmarks.quality_systems import Shipped
from elytron_core.contracts.projection import MemoryProjectionReport
from elytron_core.contracts.recall import RecallHit
from elytron_core.policy.projection.sections import escape_line, format_minute, label_of, line_of
from elytron_core.text.similarity import CHARS_PER_TOKEN

TOKENS = (1_000, 2_000, 4_000, 8_000)
HITS = 300
KEY_CHARS = 120

Shares = dict[tuple[str, int], list[float]]


async def measure(sets: Sequence[Told], *, tokens: Sequence[int] = TOKENS) -> dict[str, Shares]:
    """Return, for each kind of question, the share of evidence by (what is shown, tokens)."""
    kinds: defaultdict[str, Shares] = defaultdict(lambda: defaultdict(list))
    for told in sets:
        shipped = Shipped()
        await shipped.tell(told)
        memory = shipped.memory(told)
        for question in told.questions:
            if question.kind in UNANSWERED or question.kind == APART:
                continue
            hits = (await memory.recall(question.text, limit=min(HITS, max(tokens) // 10))).hits
            for room in tokens:
                block = await memory.project(question.text, max_chars=CHARS_PER_TOKEN * room)
                read = {id_ for id_ in shipped.names(told, block.selected_ids) if _is_read(told, id_, block)}
                filled = set(shipped.names(told, _filling(hits, CHARS_PER_TOKEN * room)))
                for name, found in (("block", read), ("hits", filled)):
                    kinds[question.kind][name, room].append(_share(question, found))
    return dict(kinds)


def _share(question: Question, found: set[str]) -> float:
    return len(found & question.gold) / len(question.gold)


def _is_read(told: Told, id_: str, block: MemoryProjectionReport) -> bool:
    turn = told.turn(id_)
    return not turn.key or escape_line(turn.key)[:KEY_CHARS] in block.system_memory_block


def _filling(hits: Sequence[RecallHit], chars: int) -> list[str]:
    """Return the ids of the first hits whose lines fit together."""
    shown: list[str] = []
    for hit in hits:
        line = line_of(hit.id, (format_minute(hit.at), label_of(hit.speaker or "")), "")
        chars -= len(line.head) + len(escape_line(hit.text)) + 1
        if chars < 0:
            break
        shown.append(hit.id)
    return shown


def _printed(kinds: dict[str, Shares]) -> None:
    columns = [(name, tokens) for tokens in TOKENS for name in ("block", "hits")]
    print(f"{'':<18}" + "".join(f"{f'{name} {tokens}':>12}" for name, tokens in columns))
    every: Shares = {column: [share for shares in kinds.values() for share in shares[column]] for column in columns}
    for kind, shares in (*sorted(kinds.items()), ("all", every)):
        print(f"{kind:<18}" + "".join(f"{100 * statistics.fmean(shares[column]):>12.1f}" for column in columns))
    whole = (100 * statistics.fmean(share == 1.0 for share in every[column]) for column in columns)
    print(f"{'all of it':<18}" + "".join(f"{share:>12.1f}" for share in whole))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sets(parser)
    arguments = parser.parse_args()
    _printed(asyncio.run(measure(chosen(arguments))))


if __name__ == "__main__":
    main()
