"""A host's own items next to a turn's text: stored byte for byte, shown only to the owner, erased with the turn."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.sdk.transcripts import bytes_below, commit, turn, view

import elytron
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, TurnConflict

pytestmark = pytest.mark.anyio

BODY = '{"type": "reasoning",  "b": 1e2, "a": "caf\\u00e9 ✓", "b2": [null, {}]}'
CARD = "4111111111111111"
FENCE = "<memory-0123456789abcdef> hot </memory-0123456789abcdef>"
ITEMS = ({"kind": "reasoning", "issuer": "openai", "body": BODY}, {"kind": "call", "issuer": "host", "body": "[1]"})


async def bodies(memory: elytron.MemoryRuntime, audience: str = "raw_owner_only") -> list[str]:
    page = await view(memory, audience)
    return [item.body for found in page.slice.turns for item in found.items]


async def test_order_and_bytes_of_items_are_preserved(memory: elytron.MemoryRuntime) -> None:
    await commit(memory, items=ITEMS)
    assert await bodies(memory) == [BODY, "[1]"]


@pytest.mark.parametrize("audience", ["host_ui", "operator_audit", "export", "model_context"])
async def test_no_other_view_shows_items(memory: elytron.MemoryRuntime, audience: str) -> None:
    await commit(memory, items=ITEMS)
    assert await bodies(memory, audience) == []


async def test_the_same_turn_with_other_items_is_a_conflict(memory: elytron.MemoryRuntime) -> None:
    await commit(memory, items=ITEMS)
    assert (await commit(memory, items=ITEMS)).duplicated
    with pytest.raises(TurnConflict):
        await commit(memory, items=ITEMS[:1])


async def test_text_of_items_is_not_recalled(memory: elytron.MemoryRuntime) -> None:
    await commit(memory, text="I like tea", items=({"kind": "x", "issuer": "y", "body": '"a zebra in the attic"'},))
    assert [hit.text for hit in (await memory.recall("zebra attic")).hits if "zebra" in hit.text] == []
    assert "zebra" not in (await memory.project("zebra attic")).system_memory_block


async def test_a_credential_in_an_item_is_redacted(memory: elytron.MemoryRuntime) -> None:
    key = "sk-proj-" + "Ab3dEf6hIj9kLm2n" * 3
    await commit(memory, items=({"kind": "call", "issuer": "host", "body": f'{{"key": "{key}"}}'},))
    (body,) = await bodies(memory)
    assert key not in body


@pytest.mark.parametrize(
    ("given", "redacted"),
    [
        ({"cards": [CARD] * 20}, {"cards": ["[redacted:card_number]"] * 20}),
        ({"card": int(CARD), CARD: [1, None]}, {"card": "[redacted:card_number]", "[redacted:card_number]": [1, None]}),
        (f"{FENCE}{CARD}", "[redacted:card_number]"),
        ([FENCE, "hot"], ["", "hot"]),
        (FENCE, ""),
    ],
)
async def test_a_redacted_item_is_whole_json(memory: elytron.MemoryRuntime, given: object, redacted: object) -> None:
    report = await commit(memory, items=({"kind": "x", "issuer": "y", "body": json.dumps(given)},))
    (body,) = await bodies(memory)
    assert json.loads(body) == redacted
    assert sum(report.scrubbed.values()) == json.dumps(given).count(CARD) + json.dumps(given).count(FENCE)


@pytest.mark.parametrize(("count", "size"), [(1, limits.OPAQUE_ITEM_BYTES), (4, limits.OPAQUE_ITEMS_BYTES // 4)])
async def test_an_item_that_its_redaction_makes_too_large_is_refused(
    memory: elytron.MemoryRuntime, count: int, size: int
) -> None:
    body = json.dumps(f"{CARD} ".ljust(size - 2, "a"))
    with pytest.raises(LimitExceeded, match="bytes of redacted items"):
        await commit(memory, items=({"kind": "x", "issuer": "y", "body": body},) * count)
    assert await bodies(memory) == []


async def test_masked_deleted_and_erased_turns_show_no_items(memory: elytron.MemoryRuntime) -> None:
    done = await commit(memory, items=ITEMS)
    await turn(memory, "mask", str(done.turn_id))
    assert await bodies(memory) == []
    await turn(memory, "restore", str(done.turn_id))
    assert await bodies(memory) == [BODY, "[1]"]
    await turn(memory, "delete_raw", str(done.turn_id))
    assert await bodies(memory) == []


async def test_erasing_a_message_leaves_no_byte_of_the_items(tmp_path: Path) -> None:
    async with elytron.open(f"{tmp_path}/folder/", space="ada") as memory:
        await commit(memory, items=({"kind": "x", "issuer": "y", "body": '"a zebra in the attic"'},))
        (hit,) = [hit for hit in (await memory.recall("I like tea")).hits if hit.text == "I like tea"]
        await memory.erase(hit.id)
        assert await bodies(memory) == []
    assert b"zebra" not in bytes_below(tmp_path)


async def test_an_archive_includes_opaque_items(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await commit(memory, items=ITEMS)
    await memory.export(tmp_path / "a.zip", include_private=True)
    async with elytron.open("memory:", space="ada", scope=memory.scope) as other:
        await other.import_archive(tmp_path / "a.zip")
        assert await bodies(other) == [BODY, "[1]"]


@pytest.mark.parametrize(
    "items",
    [
        ({"kind": "x", "issuer": "y", "body": "{"},),
        ({"kind": "x", "issuer": "y", "body": '"' + "a" * limits.OPAQUE_ITEM_BYTES + '"'},),
        ({"kind": "x", "issuer": "y", "body": '"' + "a" * 60_000 + '"'},) * 5,
        ({"kind": "x", "issuer": "y", "body": "1"},) * (limits.OPAQUE_ITEMS + 1),
    ],
)
async def test_invalid_and_oversized_items_are_rejected(
    memory: elytron.MemoryRuntime, items: tuple[dict[str, str], ...]
) -> None:
    with pytest.raises((ValidationError, InvalidInput)):
        await commit(memory, items=items)
