"""Reports of several memories iterate over them; a misspelt filter is an error."""

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


async def test_filters_have_the_names_that_add_has_and_their_own() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add(
            "The ferry leaves.", speaker="Ada", conversation="trip", tags=["boat"], metadata={"team": "red"}
        )
        for filters in ({"speaker": "Ada"}, {"conversation": "trip"}, {"tags": ["boat"]}, {"speakers": ("Ada",)}):
            assert len(await memory.recall("ferry", filters=filters)) == 1
        assert len(await memory.recall("ferry", filters={"speaker": "Ben"})) == 0
        assert len(await memory.recall("ferry", filters={"team": "red"})) == 1
