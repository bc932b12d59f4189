"""One codec reads the messages of every dialect, and writes those of chat completions and of the Responses API."""

from collections.abc import Callable, Iterable

import pytest

from elytron_models.chat_messages import (
    ItemPart,
    Json,
    TurnItem,
    anthropic_items,
    chat_of,
    message_items,
    no_text,
    responses_of,
)

ASKED = TurnItem(role="user", content=(ItemPart(type="input_text", text="Where is the key?"),))
CALLED = TurnItem(type="function_call", name="look", call_id="c1", arguments='{"at":"boat"}')
FOUND = TurnItem(type="function_call_output", call_id="c1", output="under the oar")
ANSWERED = TurnItem(role="assistant", content=(ItemPart(type="output_text", text="Under the oar."),))
STORY = (ASKED, CALLED, FOUND, ANSWERED)


@pytest.mark.parametrize("write", [chat_of, responses_of])
def test_written_messages_are_read_as_the_same_items(write: Callable[[Iterable[TurnItem]], list[Json]]) -> None:
    assert tuple(item for message in write(STORY) for item in message_items(message)) == STORY


def test_a_conversation_in_anthropics_blocks_yields_the_same_items() -> None:
    messages: list[Json] = [
        {"role": "user", "content": "Where is the key?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "boat"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "under the oar"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Under the oar."}]},
    ]
    assert tuple(item for message in messages for item in anthropic_items(message)) == STORY


def test_a_text_only_reader_copies_no_image() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 100}}
    message = {"role": "user", "content": [{"type": "text", "text": "Look."}, image]}
    (item,) = anthropic_items(message, body_of=no_text)
    assert [part.body for part in item.content] == ["", ""]
    assert item.words == "Look."
