"""No text escapes its place in what a model sees before a turn, in any entry point."""

import re
from collections.abc import AsyncIterator

import pytest
from tests.sdk.test_injections import CORPUS, TOKEN, WORD, is_plain, plant, require_framed
from tests.turn.entries import ENTRIES

import elytron
from elytron import MemoryRuntime
from elytron_core.policy.admission.own_output import strip_own_output
from elytron_core.policy.projection import fence
from elytron_core.policy.projection.builder import DATA_POLICY, DOUBT, POLICY

pytestmark = pytest.mark.anyio
EACH = pytest.mark.parametrize("entry", ENTRIES)


@pytest.fixture
async def memory() -> AsyncIterator[MemoryRuntime]:
    async with elytron.open("memory:", space="default") as opened:
        yield opened


@pytest.mark.parametrize("text", CORPUS, ids=lambda text: ascii(text)[:40])
async def test_no_text_escapes_its_block_in_any_entry_point(memory: MemoryRuntime, text: str) -> None:
    # Planting a text takes longer than a turn, so the entry points share one memory.
    await plant(memory, text)
    for entry, context_of in ENTRIES.items():
        require_in_place(entry, await context_of(memory, f"What is known of the {WORD}?"))


def require_in_place(entry: str, context: str) -> None:
    """Raise AssertionError if an entry point shows stored content other than as fenced, plain text."""
    if entry in {"proxy", "assistant"}:
        require_framed(context)
    fences = list(fence.FENCED.finditer(context))
    assert fences, entry
    assert len(fences) == len(fence.OPENING.findall(context)) == len(fence.CLOSING.findall(context)), entry
    assert any(WORD in each[2] for each in fences), entry
    # The single recogniser knows all of it, so none of it is stored as somebody's words.
    assert WORD not in strip_own_output(context).text, entry
    for line in fence.FENCED.sub(lambda each: each[2], context.replace(DATA_POLICY, "").replace(POLICY, "")).split(
        "\n"
    ):
        assert TOKEN.search(line) is None, (entry, line)
        assert all(is_plain(char) or char in "\u200c\u200d" for char in line), entry
        assert re.search("[\u200c\u200d]{2}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}", line) is None, entry


@EACH
async def test_every_entry_point_marks_doubtful_memories(memory: MemoryRuntime, entry: str) -> None:
    await memory.add("The kiln on the left runs too hot, take off thirty degrees.", conversation="earlier")
    await memory.add("Ravi pays half the rent.", conversation="earlier")
    context = await ENTRIES[entry](memory, "How much does the kiln cost?")
    assert "take off thirty degrees" in context
    assert context.count(DOUBT) == 1


@EACH
async def test_every_entry_point_shows_a_wish_for_any_question(memory: MemoryRuntime, entry: str) -> None:
    await memory.add("I am allergic to walnuts.", conversation="earlier")
    assert (await ENTRIES[entry](memory, "Pesto tonight?")).count("I am allergic to walnuts.") == 1
