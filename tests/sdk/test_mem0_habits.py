"""mem0's names, ids, and filters, as its users write them."""

import pytest

import elytron
from elytron_core.errors import InvalidInput

pytestmark = pytest.mark.anyio

MESSAGES = [
    {"role": "user", "content": "I am vegetarian."},
    {"role": "assistant", "content": "Noted: vegetarian."},
]


async def test_mem0s_argument_names_are_accepted_too() -> None:
    async with elytron.open("memory:", space=None) as memory:
        stored = await memory.add(messages=MESSAGES, user_id="ada", agent_id="cook", run_id="dinner")
        (hit,) = (await memory.search(query="vegetarian", user_id="ada", top_k=1)).hits
        assert hit.conversation == "dinner"
        (first,) = (await memory.get_all(user_id="ada", top_k=1)).items
        assert first.id == stored.ids[0]
        assert (await memory.get(memory_id=first.id, user_id="ada")).text == "I am vegetarian."
        assert len((await memory.history(memory_id=first.id, user_id="ada")).items) == 1
        assert (await memory.delete(memory_id=first.id, user_id="ada")).changed


async def test_a_run_with_another_conversation_is_rejected(memory: elytron.MemoryRuntime) -> None:
    with pytest.raises(InvalidInput, match="run_id and conversation name different"):
        await memory.add("tea", run_id="dinner", conversation="lunch")
    assert (await memory.add("tea", run_id="dinner", conversation="dinner")).changed


@pytest.mark.parametrize(
    "filters",
    [
        {"user_id": "ada"},
        {"user_id": {"eq": "ada"}},
        {"AND": [{"user_id": "ada"}, {"run_id": "dinner"}]},
        {"AND": [{"user_id": ["ada"]}], "agent_id": "cook"},
        {"OR": [{"user_id": "ada", "run_id": "dinner"}], "AND": [{"agent_id": "cook"}]},
    ],
)
async def test_filters_may_name_the_user(filters: dict[str, object]) -> None:
    async with elytron.open("memory:", space=None) as memory:
        await memory.add("I am vegetarian.", user_id="ada", agent_id="cook", run_id="dinner")
        await memory.add("I eat vegetarian burgers.", user_id="grace", agent_id="cook", run_id="dinner")
        assert [hit.text for hit in (await memory.search("vegetarian", filters=filters)).hits] == ["I am vegetarian."]
        assert [hit.text for hit in (await memory.get_all(filters=filters)).items] == ["I am vegetarian."]


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ({"user_id": "*"}, "does not name a single user"),
        ({"user_id": ["ada", "grace"]}, "does not name a single user"),
        ({"user_id": 7}, "does not name a single user"),
        ({"AND": [{"user_id": "ada"}, {"user_id": "grace"}]}, "does not name a single user"),
        ({"OR": [{"user_id": "ada"}, {"user_id": "grace"}]}, "names a space"),
        ({"NOT": [{"user_id": "ada"}]}, "names a space"),
        ({"user_id": "grace"}, "different users"),
    ],
)
async def test_filters_for_more_than_one_user_are_rejected(filters: dict[str, object], problem: str) -> None:
    async with elytron.open("memory:") as memory:
        with pytest.raises(InvalidInput, match=problem):
            await memory.search("tea", user_id="ada", filters=filters)


async def test_too_many_messages_for_one_write_are_rejected() -> None:
    async with elytron.open("memory:") as memory:
        with pytest.raises(InvalidInput, match="messages are limited to 1000 at once: add them in parts"):
            await memory.add(["tea"] * 1_001)


@pytest.mark.parametrize("messages", [None, 7, [None], [7], b"tea"])
async def test_invalid_messages_are_rejected(messages: object) -> None:
    async with elytron.open("memory:") as memory:
        with pytest.raises(InvalidInput, match="messages must be a text"):
            await memory.add(messages)  # pyright: ignore[reportArgumentType]
