"""Choose the two thresholds of the strict gate, which decides when assistants are shown doubtful memories.

    python -m benchmarks.assistants_doubt [--rows]

The sessions of `benchmarks/assistants_fit`, which were written for this choice and are about other repositories than
those of `benchmarks.assistants`, are replayed in this process. Each prompt gets the block that hooks of a new session
would get through the gate `auto`, and one of the same size without a gate. For pairs of thresholds, the table shows how
many unrelated prompts have a block, and how many of the needed statements are in the block. A low first estimate counts
only if few of the query's words are near a memory. The last line shows the current thresholds. `--rows` lists the
numbers of every prompt with doubtful memories.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import elytron
from benchmarks.assistant_sessions import ScriptedSession, ScriptedTurn, describe_script, has_words, read_script
from elytron.ops import projection
from elytron.recall.retrieval import GatheredHits
from elytron.runtime import MemoryRuntime
from elytron_assistants.project_registry import PERSON_SPACE, project_memory
from elytron_assistants.tiers import TieredMemory
from elytron_core.clock import instant
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.recall import RecallGate, RecallOutcome
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_core.policy.ranking.recall_gate import DOUBTFUL_CONTEXT, DOUBTFUL_FIRST, DOUBTFUL_FROM
from elytron_core.scope import Scope

SESSIONS: Final = Path(__file__).parent / "assistants_fit"
BLOCK_CHARS: Final = 800
FIRST_DAY: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
CHANCES: Final = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.1)
FIRSTS: Final = (0.0, 0.1, 0.2, 0.25, 0.3)


class TierNumbers(NamedTuple):
    """One tier of a memory for a prompt: whether it is doubtful, the gate's numbers, and the texts."""

    is_doubtful: bool
    chance: float
    first: float
    context: float
    texts: tuple[str, ...]

    def passes(self, chance: float, first: float, /) -> bool:
        """Return whether the tier is shown with these thresholds."""
        is_near = self.first >= first or self.context >= DOUBTFUL_CONTEXT
        return bool(self.texts) and (not self.is_doubtful or (self.chance >= chance and is_near))


@dataclass(frozen=True, slots=True)
class PromptNumbers:
    """A prompt, the statements that it needs, and its blocks with and without the gate."""

    turn: ScriptedTurn
    facts: tuple[str, ...]
    tiers: tuple[TierNumbers, ...]
    block: str
    ungated_block: str

    def fact_count(self, chance: float, first: float, /) -> int:
        """Return how many of the needed statements are in the block with these thresholds."""
        texts = [text for tier in self.tiers if tier.passes(chance, first) for text in tier.texts]
        return sum(has_words(self.block, fact) and any(has_words(text, fact) for text in texts) for fact in self.facts)


@dataclass(slots=True)
class GatherRecorder:
    """Record what projections gather, which their reports do not contain."""

    gathered: list[GatheredHits] = field(default_factory=list[GatheredHits])

    def recording(self) -> None:
        """Record everything gathered in this process from now on."""
        usual = projection.gather_hits

        async def gather_hits(*arguments: object) -> GatheredHits:
            hits = await usual(*arguments)  # type: ignore[arg-type]
            self.gathered.append(hits)
            return hits

        setattr(projection, "gather_hits", gather_hits)  # noqa: B010 - to look on, as nothing else may

    def tiers(self) -> tuple[TierNumbers, ...]:
        """Return the numbers of each projection with a gate."""
        return tuple(
            TierNumbers(
                hits.verdict.outcome is RecallOutcome.DOUBTFUL,
                max((row.chance for row in hits.verdict.gate.planes if row.is_open), default=0.0),
                hits.verdict.first,
                max((row.context for row in hits.verdict.gate.planes if row.is_open), default=0.0),
                tuple(hit.text for hit in hits.hits),
            )
            for hits in self.gathered
            if hits.verdict.gate is not None
        )


async def prompt_numbers(recorder: GatherRecorder) -> list[PromptNumbers]:
    """Replay all sessions and return the numbers of every prompt."""
    script, rows = read_script(SESSIONS), list[PromptNumbers]()
    with tempfile.TemporaryDirectory() as folder:
        async with elytron.open("memory:") as memory:
            for session in script.sessions:
                tiers = await _opened_tiers(memory, Path(folder) / session.repository)
                scope = Scope(
                    space=PERSON_SPACE, channel="replay", conversation=f"{session.repository}-{session.number}"
                )
                for place, turn in enumerate(session.turns):
                    recorder.gathered.clear()
                    block = await _block(tiers, scope, turn, RecallGate.AUTO)
                    numbers = recorder.tiers()
                    ungated_block = await _block(tiers, scope, turn, RecallGate.OFF)
                    facts = tuple(script.facts[name] for name in turn.evidence)
                    rows.append(PromptNumbers(turn, facts, numbers, block, ungated_block))
                    await tiers.operate(_write_request(scope, session, place, turn))
    return rows


async def _opened_tiers(memory: MemoryRuntime, folder: Path) -> TieredMemory:
    folder.mkdir(exist_ok=True)
    # The folder for temporary files is not a project, but a folder inside it is.
    return TieredMemory(memory, memory.operate, await project_memory(memory, folder, person=PERSON_SPACE, cwd=folder))


async def _block(tiers: TieredMemory, scope: Scope, turn: ScriptedTurn, gate: RecallGate) -> str:
    request = MemoryProjectionRequest(
        scope=scope,
        query=turn.prompt,
        max_chars=BLOCK_CHARS,
        recent_messages_limit=0,
        recall_gate=gate,
        answers_only=True,
        without_conversation=True,
    )
    report = await tiers.operate(request)
    return report.system_memory_block if report.selected_ids else ""


def _write_request(scope: Scope, session: ScriptedSession, place: int, turn: ScriptedTurn) -> MemoryWriteRequest:
    at = instant(FIRST_DAY + timedelta(days=session.number, minutes=place))
    messages = (
        Message(role=EvidenceRole.USER, text=turn.prompt, at=at),
        Message(role=EvidenceRole.ASSISTANT, text=turn.reply, at=at),
    )
    draft = TurnDraft(messages=messages, host_id=f"{session.repository}-{session.number}-{place}")
    return MemoryWriteRequest(scope=scope, write=TranscriptWrite(turns=(draft,)))


def table_lines(rows: Sequence[PromptNumbers], /) -> Iterator[str]:
    """Yield the printed lines of the replay."""
    unrelated = [row for row in rows if row.turn.is_unrelated]
    ungated = sum(has_words(row.ungated_block, fact) for row in rows for fact in row.facts)
    needed, alarms = sum(len(row.facts) for row in rows), sum(bool(row.ungated_block) for row in unrelated)
    yield f"without a gate: {alarms} of {len(unrelated)} unrelated prompts, {ungated} of {needed} statements"
    yield "unrelated prompts with a block, and statements in it, by the least chance and the least first estimate"
    yield f"{'':>8}" + "".join(f"{first:>12g}" for first in FIRSTS)

    def cell(chance: float, first: float) -> str:
        shown = sum(any(tier.passes(chance, first) for tier in row.tiers) for row in unrelated if row.block)
        return f"{shown}, {sum(row.fact_count(chance, first) for row in rows)}"

    for chance in CHANCES:
        yield f"{chance:>8g}" + "".join(f"{cell(chance, first):>12}" for first in FIRSTS)
    yield f"shipped: {DOUBTFUL_FROM:g} and {DOUBTFUL_FIRST:g}: {cell(DOUBTFUL_FROM, DOUBTFUL_FIRST)}"


def row_lines(rows: Sequence[PromptNumbers], /) -> Iterator[str]:
    """Yield the numbers of every doubtful tier."""
    for row in rows:
        kind, prompt = "unrelated" if row.turn.is_unrelated else "related", row.turn.prompt.splitlines()[0]
        for tier in row.tiers:
            if tier.texts and tier.is_doubtful:
                yield f"{kind:<10}{tier.chance:8.3f}{tier.first:8.3f}{tier.context:8.3f}  {prompt}"


def main() -> None:
    """Replay the sessions and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="store_true", help="list the numbers of doubtful memories")
    arguments = parser.parse_args()
    recorder = GatherRecorder()
    recorder.recording()
    rows = asyncio.run(prompt_numbers(recorder))
    print(describe_script(read_script(SESSIONS)))
    for line in (*(row_lines(rows) if arguments.rows else ()), *table_lines(rows)):
        print(line)


if __name__ == "__main__":
    main()
