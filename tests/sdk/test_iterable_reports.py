"""Reports of several memories are iterable; a misspelt filter is an error."""

from datetime import UTC, datetime

import pytest

import elytron
from elytron_core.errors import InvalidInput

pytestmark = pytest.mark.anyio


async def test_a_recall_and_a_list_iterate_over_memories_and_have_a_length() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add(["The ferry leaves at six.", "The ferry leaves at nine."])
        found = await memory.recall("when does the ferry leave?")
        assert ([hit.id for hit in found], len(found), found[0]) == ([hit.id for hit in found.hits], 2, found.hits[0])
        listed = await memory.list()
        assert (list(listed), len(listed), listed[1]) == (list(listed.items), 2, listed.items[1])


@pytest.mark.parametrize("name", ["tagz", "speakrs", "conversatons", "created_att", "run_idd"])
async def test_a_misspelt_filter_is_an_error(name: str) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(InvalidInput, match="did you mean"):
            await memory.recall("ferry", filters={name: ["x"]})
        await memory.add("The ferry leaves.", metadata={name: "x"})
        assert len(await memory.recall("ferry", filters={"metadata": {name: "x"}})) == 1


async def test_filters_accept_the_names_of_add_and_their_own() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add(
            "The ferry leaves.", speaker="Ada", conversation="trip", tags=["boat"], metadata={"team": "red"}
        )
        for filters in ({"speaker": "Ada"}, {"conversation": "trip"}, {"tags": ["boat"]}, {"speakers": ("Ada",)}):
            assert len(await memory.recall("ferry", filters=filters)) == 1
        assert len(await memory.recall("ferry", filters={"speaker": "Ben"})) == 0
        assert len(await memory.recall("ferry", filters={"team": "red"})) == 1


@pytest.mark.parametrize(
    "said", ["2026-02-01", "2026-02-01T00:00:00Z", datetime(2026, 2, 1, tzinfo=UTC), 1769904000000]
)
async def test_filter_times_have_the_same_formats_as_those_of_add(said: str | datetime | int) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The ferry leaves at six.", at="2026-01-31")
        await memory.add("The ferry leaves at nine.", at="2026-02-01")
        for name, texts in (("since", ["The ferry leaves at nine."]), ("until", ["The ferry leaves at six."])):
            assert [hit.text for hit in await memory.recall("ferry", filters={name: said})] == texts
            assert [hit.text for hit in await memory.list(filters={name: said})] == texts
        for name in ("as_of", "known_at"):
            await memory.recall("ferry", filters={name: said})
        with pytest.raises(InvalidInput, match="ISO 8601"):
            await memory.recall("ferry", filters={"since": "yesterday"})
