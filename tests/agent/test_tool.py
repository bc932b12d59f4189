"""Tools: declared to a model, called with checked arguments, answered with text even on errors."""

import json

import pytest

from elytron_agent import CallKey, ReferencePlacement, RunMemory, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_agent.strategies.strategy import role_message, strategy_reference
from elytron_agent.tool import Arguments
from elytron_core.errors import NotFound
from elytron_core.ports.chat import ChatRole

pytestmark = pytest.mark.anyio
KEY = CallKey("r1", 2, "c3")


class Count(ToolArguments):
    word: str
    times: int = 1


async def count(given: Count, key: CallKey, /) -> str:
    if given.word == "gone":
        raise NotFound(what="word", name="gone")
    return f"{given.word * given.times} {key}"


COUNT = typed_tool("count", "Repeats a word.", Count, count)


async def test_a_tool_is_declared_by_the_schema_of_its_arguments() -> None:
    declared = COUNT.declared
    assert (declared.name, declared.description) == ("count", "Repeats a word.")
    assert json.loads(declared.parameters) == {
        "type": "object",
        "properties": {"word": {"type": "string"}, "times": {"type": "integer", "default": 1}},
        "required": ["word"],
        "additionalProperties": False,
    }


async def test_a_call_has_its_key_and_accepts_numbers_as_text() -> None:
    assert await COUNT.call({"word": "a", "times": "2"}, KEY) == ToolAnswer(text="aa r1/2/c3")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "word is not valid: field required"),
        ({"word": "a", "tims": 1}, "did you mean times?"),
        ({"word": "gone"}, "no word of this name"),
    ],
)
async def test_errors_of_a_call_are_answers(given: Arguments, told: str) -> None:
    answer = await COUNT.call(given, KEY)
    assert answer.is_error
    assert told in answer.text


async def test_outside_content_from_a_tool_is_marked() -> None:
    async def fetch(_given: Arguments, _key: CallKey, /) -> str:
        return "a page"

    assert await Tool("fetch", "", {}, fetch, is_outside=True).call({}, KEY) == ToolAnswer(
        text="a page", is_outside=True
    )


def test_a_reference_is_placed_by_its_strategy_and_the_current_input_is_last() -> None:
    head, history, current = (
        [role_message("rules", role=ChatRole.SYSTEM)],
        [role_message("before")],
        role_message("now"),
    )
    found = strategy_reference("Recalled")
    early = RunMemory(reference="Recalled").arranged(head, history, current)
    late = RunMemory(reference="Recalled", placement=ReferencePlacement.TAIL).arranged(head, history, current)
    assert early == (*head, found, *history, current)
    assert late == (*head, *history, found, current)
    standing = RunMemory(standing="Blocks", reference="Recalled").arranged(head, history, current)
    assert standing == (*head, strategy_reference("Blocks"), found, *history, current)
    assert RunMemory().arranged(head, history, current) == (*head, *history, current)
