"""Results of several scopes are in the order of one recall over everything that the user stores."""

import pytest
from tests.gateway.asking import CHAT, add, texts

from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import MemoryGateway
from elytron_gateway.wire import GatewaySearchRequest, PlacedRequest, SearchResult

pytestmark = pytest.mark.anyio

SAID = "The payment terms with Heron Ltd are thirty days net."
RECIPE = b"# Bread\n\nKnead the dough for ten minutes.\n\n## Crust\n\nTerms of art: crumb, crust, payment in loaves."


async def found(gateway: MemoryGateway, who: dict[str, str], query: str, *scopes: str) -> tuple[SearchResult, ...]:
    asked = {**who, "query": query, "scope": list(scopes), "conversation_id": "c_456", "top_k": 8}
    return (await gateway.search(GatewaySearchRequest.model_validate(asked))).results


@pytest.fixture
async def kept(gateway: MemoryGateway, ada: dict[str, str]) -> MemoryGateway:
    await gateway.add(add(ada, "I saw the sea today.", SAID, "We moved the desks on Monday."))
    await gateway.add(add(ada, "The invoice for Wren Ltd went out.", session="chat:other"))
    await gateway.upload(PlacedRequest(**ada), UploadedFile(RECIPE, file_name="bread.md"))
    return gateway


async def test_an_answer_in_the_chat_ranks_above_a_stray_word_in_a_file(
    kept: MemoryGateway, ada: dict[str, str]
) -> None:
    results = await found(kept, ada, "payment terms Heron", "current_chat", "resources")
    assert results[0].text == SAID
    assert {result.source_scope for result in results} == {"current_chat", "resources"}


async def test_scores_of_several_scopes_match_a_search_of_everything(kept: MemoryGateway, ada: dict[str, str]) -> None:
    whole = {one.id: one.score for one in await found(kept, ada, "payment terms Heron", "all_user_memory")}
    parts = await found(kept, ada, "payment terms Heron", "current_chat", "resources")
    assert {one.id: one.score for one in parts} == {one.id: whole[one.id] for one in parts}


async def test_without_a_scope_new_messages_are_found(gateway: MemoryGateway, ada: dict[str, str]) -> None:
    await gateway.add(add(ada, SAID))
    assert await texts(gateway, ada, "payment terms Heron") == [SAID]
    assert await texts(gateway, ada, "payment terms Heron", conversation_id="c_456") == [SAID]


async def test_a_single_scope_keeps_its_scores(kept: MemoryGateway, ada: dict[str, str]) -> None:
    alone = await found(kept, ada, "payment terms Heron", "current_chat")
    assert alone[0].text == SAID
    assert alone[0].session_id == CHAT
