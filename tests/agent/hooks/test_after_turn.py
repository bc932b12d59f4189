"""After a turn: what is stored once, and what never is (rows G6, G7, G30)."""

from typing import Any

import pytest
from tests.agent.hooks.turns import asked, parts, said, told, values
from tests.agent.places import EVERYWHERE

from elytron.api import MemoryFace
from elytron_agent import AfterTurn, HookState, TurnHooks
from elytron_agent.hooks.messages import items_of
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.contracts.transcript import (
    MemoryTranscriptLifecycleRequest,
    TranscriptLifecycleTransition,
)
from elytron_models.chat_messages import Json, chat_of, responses_of

pytestmark = pytest.mark.anyio

CALL: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Sines"}'}}],
}
RESULT: Json = {"role": "tool", "tool_call_id": "c1", "content": "High water at 14:20."}
PICTURE: Json = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Which boat is this?"},
        {"type": "image_url", "image_url": {"url": "https://pictures.example/boat.png", "detail": "low"}},
    ],
}


async def ledger(memory: MemoryFace) -> list[tuple[str, str]]:
    """Return every stored message with its role."""
    report = await memory.replay(limit=100)
    return [(message.role.value, message.text) for turn in report.turns for message in turn.messages]


@EVERYWHERE
async def test_g6_a_repeated_turn_is_stored_once(hooks: TurnHooks, memory: MemoryFace) -> None:
    first = await told(hooks, "My name is Ada.", "Hello, Ada.", turn_id="t1")
    kept, facts = await ledger(memory), await memory.list_facts()
    again = await told(hooks, "My name is Ada.", "Hello, Ada.", turn_id="t1")
    assert (first.state, again.state, again.facts) == (HookState.APPLIED, HookState.DUPLICATE, ())
    assert (first.turn, await ledger(memory)) == (again.turn, kept)
    assert await memory.list_facts() == facts


async def test_g6_another_turn_under_a_known_id_changes_nothing(hooks: TurnHooks, memory: MemoryFace) -> None:
    await told(hooks, "My name is Ada.", turn_id="t1")
    kept = await ledger(memory)
    report = await told(hooks, "My name is Eve.", turn_id="t1")
    assert (report.state, report.failure) == (HookState.FAILED, "turn_conflict")
    assert await ledger(memory) == kept
    assert values(await asked(hooks, "name?", conversation="other")) == {"name": "Ada"}


async def test_g7_text_added_by_hooks_is_never_stored(hooks: TurnHooks, memory: MemoryFace) -> None:
    await told(hooks, "My name is Ada.", "Hello, Ada.")
    async with hooks.turn("What is my name?") as turn:
        echo = "\n".join(str(message["content"]) for message in turn.messages[:2])
        turn.answered(f"Ada, as I was told: {echo}")
    assert await ledger(memory) == [
        ("user", "My name is Ada."),
        ("assistant", "Hello, Ada."),
        ("user", "What is my name?"),
        ("assistant", "Ada, as I was told:"),
    ]


async def test_g7_known_history_is_not_stored_again(hooks: TurnHooks, memory: MemoryFace) -> None:
    history: list[Json] = [said("system", "Be kind.")]
    for number in range(4):
        history.append(said("user", f"question {number}"))
        async with hooks.turn(history) as turn:
            turn.answered(f"answer {number}")
        history.append(said("assistant", f"answer {number}"))
    assert await ledger(memory) == [
        (role, f"{word} {number}")
        for number in range(4)
        for role, word in (("user", "question"), ("assistant", "answer"))
    ]


async def test_a_failed_or_unanswered_turn_is_not_stored(hooks: TurnHooks, memory: MemoryFace) -> None:
    async def broken_off() -> None:
        async with hooks.turn("My name is Ada.") as turn:
            turn.answered("Hello")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await broken_off()
    await asked(hooks, "My name is Eve.")
    assert await ledger(memory) == []


async def test_an_empty_turn_is_not_stored(hooks: TurnHooks) -> None:
    report = await hooks.after_turn(AfterTurn(turn_id="t", input_items=[said("system", "x")], output_items="y"))
    assert report.state is HookState.EMPTY


@EVERYWHERE
async def test_g30_calls_and_results_round_trip_unchanged(hooks: TurnHooks) -> None:
    sent = [said("user", "When is high water?"), CALL, RESULT]
    async with hooks.turn(sent[:1]) as turn:
        turn.answered("At 14:20.", messages=sent)
    assert turn.after is not None
    assert turn.after.messages == 4
    report = await asked(hooks, "Thanks")
    assert report.messages == [*sent, said("assistant", "At 14:20."), said("user", "Thanks")]
    items = await asked(hooks, [{"type": "message", "role": "user", "content": "Thanks"}])
    assert items.messages[1:3] == [
        {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"port":"Sines"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "High water at 14:20."},
    ]


async def test_g30_images_round_trip_unchanged(hooks: TurnHooks) -> None:
    async with hooks.turn([PICTURE]) as turn:
        turn.answered({"choices": [{"message": {"role": "assistant", "content": "A dinghy."}}]})
    report = await asked(hooks, "Sure?")
    assert report.messages == [PICTURE, said("assistant", "A dinghy."), said("user", "Sure?")]


async def test_the_text_next_to_a_large_inline_image_is_stored(hooks: TurnHooks) -> None:
    large: Json = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 20_000}"}}
    async with hooks.turn([{"role": "user", "content": [{"type": "text", "text": "Which boat?"}, large]}]) as turn:
        turn.answered("A dinghy.")
    assert parts(await asked(hooks, "Sure?")) == ["Which boat?", "A dinghy.", "Sure?"]


async def test_a_result_without_its_call_is_omitted(hooks: TurnHooks) -> None:
    async with hooks.turn([said("user", "When is high water?"), RESULT]) as turn:
        turn.answered("At 14:20.")
    assert parts(await asked(hooks, "Thanks")) == ["When is high water?", "At 14:20.", "Thanks"]


@EVERYWHERE
async def test_erased_or_forgotten_content_is_not_repeated(hooks: TurnHooks, memory: MemoryFace) -> None:
    for number, word in enumerate(("heron", "plover", "curlew")):
        await told(hooks, f"I saw a {word}.", f"A {word}!", turn_id=f"t{number}")
    hits = (await memory.list(filters=RecallFilters(planes=(RecallPlane.TRANSCRIPT,)))).items
    of = {hit.text: hit.id for hit in hits}
    await memory.erase(of["I saw a heron."])
    await memory.forget(of["I saw a plover."])
    await memory.request_transcript_lifecycle(
        MemoryTranscriptLifecycleRequest(transition=TranscriptLifecycleTransition.MASK, turn_ids=("t2",))
    )
    assert parts(await asked(hooks, "Thanks")) == ["A heron!", "A plover!", "Thanks"]


@pytest.mark.parametrize(
    "messages",
    [
        [said("user", "hello"), said("assistant", "hi")],
        [PICTURE, CALL, RESULT, said("assistant", "done")],
        [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f1", "filename": "tide.pdf"}}]}],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}],
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}, PICTURE["content"][1]],
            }
        ],
    ],
)
def test_g30_chat_completions_messages_round_trip(messages: list[Json]) -> None:
    assert chat_of(items_of(messages)) == messages


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_image", "file_id": "f1", "detail": "low"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "f1", "filename": "b.pdf"}]},
        {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "high"},
        {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "zzz"},
    ],
)
def test_g30_responses_api_items_round_trip(item: dict[str, Any]) -> None:
    assert responses_of(items_of([item])) == [item]


async def test_answers_of_both_apis_are_read_completely(hooks: TurnHooks, memory: MemoryFace) -> None:
    output: list[Json] = [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "first"}]},
    ]
    replies: list[Any] = [{"output": output}, output, said("assistant", "first")]
    for number, reply in enumerate(replies):
        async with hooks.turn("hello", turn_id=f"t{number}") as turn:
            turn.answered(reply)
    assert await ledger(memory) == [("user", "hello"), ("assistant", "first")] * 3
