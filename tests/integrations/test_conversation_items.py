"""Items of frameworks: complete, in order, stored once, and erased with their text."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import elytron
from elytron import intake
from elytron.api import MemoryFace
from elytron.runtime_records import RecordDraft, records_of
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.errors import (
    LimitExceeded,
    NotFound,
    PreconditionFailed,
)
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.records import copies_of_turn
from elytron_core.planes.transcript import Message, OpaqueItem
from elytron_integrations import conversation_items
from elytron_integrations.conversation_items import (
    ConversationItem,
    ConversationItems,
    host_name,
    joined_text,
    settle_change,
)
from elytron_integrations.user_memory import narrowed_scope, user_memory

pytestmark = pytest.mark.anyio
LARGE = {"image": "A" * 200_000, "words": ["ü"] * 10}
OTHER = {**LARGE, "image": "B" * 200_000}
"""Of the same size."""


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture
def items(memory: MemoryFace) -> ConversationItems:
    return items_of(memory)


def items_of(memory: MemoryFace, conversation: str = "trip") -> ConversationItems:
    scope = narrowed_scope(memory.scope, channel="framework", conversation=conversation)
    return ConversationItems(memory, scope, issuer="framework")


def item_of(value: Any, **fields: Any) -> ConversationItem:
    return ConversationItem(value, "message", **fields)


async def values_of(items: ConversationItems) -> list[Any]:
    return [item.value for item in await items.read()]


def nested_value(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


async def test_items_are_returned_complete_and_in_order(items: ConversationItems) -> None:
    values: list[Any] = [{"b": 1, "a": None}, "text", 2**70, LARGE, nested_value(200), {"half": "\ud800"}, []]
    await items.append([item_of(value) for value in values])
    await items.append([item_of({"last": True})])
    assert await values_of(items) == [*values, {"last": True}]


async def test_more_items_than_one_commit_takes_are_read_in_order(items: ConversationItems) -> None:
    await items.append([item_of(number) for number in range(1_003)])
    assert await values_of(items) == list(range(1_003))


async def test_an_item_is_stored_once_under_its_id(items: ConversationItems, caplog: pytest.LogCaptureFixture) -> None:
    await items.append([item_of({"n": 1}, host_id="first"), item_of({"n": 2}, host_id="second\n")])
    await items.append([item_of({"n": 1}, host_id="first"), item_of({"n": 7}, host_id="second\n"), item_of({"n": 3})])
    assert await values_of(items) == [{"n": 1}, {"n": 2}, {"n": 3}]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("elytron_integrations")]
    assert warning == "an item of framework was sent again with other content: the stored one was left unchanged"


async def test_the_text_of_an_item_is_recalled_with_its_speaker(items: ConversationItems, memory: MemoryFace) -> None:
    words = "The boat key is under the oar."
    await items.append([item_of({"n": 1}, text=words, speaker="Ada", role=EvidenceRole.ASSISTANT)])
    hit = (await memory.recall("where is the boat key?"))[0]
    assert (hit.text, hit.speaker, hit.role, hit.channel) == (words, "Ada", EvidenceRole.ASSISTANT, "framework")


async def test_a_large_item_is_erased_with_its_words(items: ConversationItems, memory: MemoryFace) -> None:
    await items.append([item_of(LARGE, text="A photo of the boat."), item_of({"n": 2}, text="The next message.")])
    (hit,) = [hit for hit in await memory.recall("photo of the boat", limit=5) if "photo" in hit.text]
    assert [record async for record in records_of(memory).below()]
    await memory.erase(hit.id)
    assert await values_of(items) == [{"n": 2}]
    assert [record async for record in records_of(memory).below()] == []


async def test_erasing_a_conversation_leaves_the_others(items: ConversationItems, memory: MemoryFace) -> None:
    other = items_of(memory, "home")
    await items.append([item_of({"n": 1}, text="Lisbon"), item_of(LARGE)])
    await other.append([item_of({"n": 3}, text="tea")])
    assert await items.erase() == 2
    assert (await values_of(items), await values_of(other)) == ([], [{"n": 3}])
    assert await items.erase() == 0


async def test_credentials_in_an_item_are_redacted_and_it_stays_json(items: ConversationItems) -> None:
    token = "ghp_" + "a1B2" * 9
    await items.append([item_of({"key": token, "password": "hunter2hunter2", "note": f'my password is x1"y2 {token}'})])
    (value,) = await values_of(items)
    assert token not in str(value)
    assert "hunter2hunter2" not in str(value)
    assert set(value) == {"key", "password", "note"}


@pytest.mark.parametrize("before", ["\n", "\t", "\r\n", '"', "\\", "\u2028", "\x1f"])
@pytest.mark.parametrize("secret", ["ghp_" + "a1B2" * 9, "4111 1111 1111 1111", "AKIAIOSFODNN7EXAMPLE"])
async def test_a_credential_behind_an_escape_is_redacted(items: ConversationItems, before: str, secret: str) -> None:
    await items.append([item_of({"text": f"use this:{before}{secret}", "list": [f"a{before}{secret}"]})])
    await items.append([item_of({"text": f"use this:{before}{secret}", "rest": LARGE})])
    values = await values_of(items)
    assert secret not in str(values)
    assert (values[0].keys(), values[1]["rest"]) == ({"text", "list"}, LARGE)


async def test_data_in_base64_stays_as_it_is_beside_a_credential(items: ConversationItems) -> None:
    data = "iVBORw0KGgoAAAANSUhE" + ("ab-sk-" + "aB3d" * 10 + "-glpat-") * 40
    token = "ghp_" + "a1B2" * 9
    values = [{"data": data, "url": f"data:image/png;base64,{data}"}, {"data": data * 100, "text": f"use\n{token}"}]
    await items.append([item_of(value) for value in values])
    assert await values_of(items) == [values[0], {"data": data * 100, "text": "use\n[redacted:github_token]"}]


@pytest.mark.parametrize(
    "secret", ["ghp_" + "a1B2" * 9, "eyJhbGciOiJIUzI1NiJ9.eyJ" + "zdWIi" * 300 + "." + "c2ln" * 10]
)
async def test_a_credential_in_json_in_an_item_is_redacted(items: ConversationItems, secret: str) -> None:
    arguments = json.dumps({"text": f"use:\n{secret}", "more": json.dumps([f"\t{secret}"])})
    await items.append([item_of({"arguments": arguments})])
    ((value,),) = [list(item.values()) for item in await values_of(items)]
    assert secret not in value
    assert json.loads(value).keys() == {"text", "more"}


async def test_an_item_whose_redaction_breaks_its_json_is_redacted_text_by_text(
    items: ConversationItems, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrub = intake.scrub_secrets

    def scrub_over_ends(text: str) -> Any:
        scrubbed = scrub(text)
        return scrubbed.model_copy(update={"text": "{"}) if text.startswith("{") and scrubbed.counts else scrubbed

    monkeypatch.setattr(intake, "scrub_secrets", scrub_over_ends)
    await items.append([item_of({"all": ["ghp_" + "a1B2" * 9, 7], "n": None})])
    assert await values_of(items) == [{"all": ["[redacted:github_token]", 7], "n": None}]


async def test_a_block_of_recalled_memory_is_removed_from_an_item(items: ConversationItems, memory: MemoryFace) -> None:
    await memory.add("Ada drinks green tea.")
    block = (await memory.project("what does Ada drink?", recall_gate=elytron.RecallGate.OFF)).system_memory_block
    open_end = block[: len(block) // 2]
    await items.append([item_of({"text": f"{block} Hello.", "more": [open_end, "A" * 100_000]})])
    (value,) = await values_of(items)
    assert "green tea" not in str(value)
    assert value["more"][1] == "A" * 100_000


async def test_an_oversized_item_is_rejected_before_anything_is_stored(
    items: ConversationItems, memory: MemoryFace
) -> None:
    with pytest.raises(LimitExceeded, match="bytes of an item"):
        await items.append([item_of(1), item_of(LARGE), item_of("A" * conversation_items.ITEM_BYTES)])
    assert await values_of(items) == []
    assert [record async for record in records_of(memory).below()] == []


@pytest.mark.parametrize("other", [OTHER, {**LARGE, "image": "A" * 400_000}, "small"])
async def test_a_large_item_sent_again_with_other_content_stays_as_it_was(
    items: ConversationItems, memory: MemoryFace, other: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await items.append([item_of(LARGE, host_id="photo"), item_of({"n": 2})])
    pieces = [record async for record in records_of(memory).below()]
    await items.append([item_of(other, host_id="photo")])
    assert await values_of(items) == [LARGE, {"n": 2}]
    assert [record async for record in records_of(memory).below()] == pieces
    assert "sent again with other content" in caplog.text
    await items.append([item_of(LARGE, host_id="photo")])
    assert await values_of(items) == [LARGE, {"n": 2}]


async def test_large_items_of_one_id_in_two_channels_are_apart(memory: MemoryFace) -> None:
    shop, bank = (
        ConversationItems(
            memory, narrowed_scope(memory.scope, channel=channel, conversation="trip"), issuer="framework"
        )
        for channel in ("shop", "bank")
    )
    await bank.append([item_of(LARGE, host_id="photo")])
    await shop.append([item_of(OTHER, host_id="photo")])
    assert await values_of(bank) == [LARGE]
    assert await shop.erase() == 1
    assert (await values_of(bank), await values_of(shop)) == ([LARGE], [])


async def test_pieces_of_an_earlier_build_are_read_and_erased(items: ConversationItems, memory: MemoryFace) -> None:
    body = json.dumps(LARGE)
    pieces = conversation_items.text_pieces(body)
    namespace = copies_of_turn("photo", "trip")
    await records_of(memory).put_all(
        [RecordDraft(namespace, f"framework:{place}", piece) for place, piece in enumerate(pieces)]
    )
    item = OpaqueItem(kind="elytron.pieces", issuer="framework", body=str(len(pieces)))
    turn = TurnDraft(messages=(Message(text=""),), host_id="photo", items=(item,))
    scope = narrowed_scope(memory.scope, channel="framework", conversation="trip")
    await memory.operate(MemoryWriteRequest(scope=scope, write=TranscriptWrite(turns=(turn,))))
    assert await values_of(items) == [LARGE]
    assert await items.erase() == 1
    assert [record async for record in records_of(memory).below()] == []


async def test_an_item_with_a_missing_piece_is_not_served(items: ConversationItems, memory: MemoryFace) -> None:
    await items.append([item_of(LARGE, host_id="photo")])
    records = records_of(memory)
    await records.erase([record async for record in records.below() if record.key.endswith(":1")])
    with pytest.raises(NotFound, match="piece of an item"):
        await items.read()


async def test_items_of_another_framework_are_not_read(items: ConversationItems, memory: MemoryFace) -> None:
    await items.append([item_of({"n": 1})])
    scope = narrowed_scope(memory.scope, channel="framework", conversation="trip")
    assert await ConversationItems(memory, scope, issuer="other").read() == []


async def test_another_user_reads_no_item_of_the_same_conversation(
    items: ConversationItems, memory: MemoryFace
) -> None:
    await items.append([item_of({"n": 1}, text="Lisbon"), item_of(LARGE, host_id="photo")])
    grace = items_of(user_memory(memory, "grace", operation="a test"))
    assert (await values_of(grace), await grace.erase()) == ([], 0)
    assert len(await values_of(items)) == 2


async def test_a_change_is_retried_until_no_other_writer_interferes(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[int] = []

    async def change(successes: int) -> None:
        changes.append(successes)
        if len(changes) < successes:
            raise PreconditionFailed

    await settle_change(lambda: change(3))
    assert changes == [3, 3, 3]
    monkeypatch.setattr(conversation_items, "CHANGE_ATTEMPTS", 2)
    with pytest.raises(PreconditionFailed):
        await settle_change(lambda: change(9))
    assert len(changes) == 5


def test_an_unusual_id_is_stored_as_its_digest() -> None:
    assert host_name("event-1") == "event-1"
    assert host_name("a\nb") == host_name("a\nb") != host_name("a\nc")


def test_texts_are_joined_without_blank_ones() -> None:
    assert joined_text(["a", " ", None, 7, "b"]) == "a\nb"
