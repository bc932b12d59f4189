"""What may be added where: chats with one id format, existing resources, tool messages, outside text."""

from typing import Any

import httpx
import pytest
from tests.gateway.asking import add, said, texts
from tests.gateway.everos import EverOs

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core.errors import InvalidInput, NotFound, PermissionRefused
from elytron_core.evidence import TrustLevel
from elytron_gateway import wire
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import MemoryGateway
from elytron_gateway.upstream.everos import EverOsUpstream
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

MISSING = "resource:ada:r_doesnotexist"


@pytest.mark.parametrize("size", [1, 100, 175, 176, 200])
async def test_every_writable_conversation_can_be_searched(
    gateway: MemoryGateway, ada: dict[str, str], size: int
) -> None:
    conversation = "c" * size
    asked: dict[str, Any] = {**ada, "query": "tea", "conversation_id": conversation, "scope": ["current_chat"]}
    if size > 175:
        for refused in (
            lambda: add(ada, "Tea.", session=f"chat:{conversation}"),
            lambda: wire.GatewaySearchRequest(**asked),
        ):
            with pytest.raises(InvalidInput):
                refused()
        return
    await gateway.add(add(ada, "Tea is in the tin.", session=f"chat:{conversation}"))
    found = await gateway.search(wire.GatewaySearchRequest.model_validate(asked))
    assert [result.text for result in found.results] == ["Tea is in the tin."]


@pytest.mark.parametrize("conversation", [" c", "c ", "c\u00a0", "\u200bc"])
async def test_a_conversation_name_that_search_rejects_cannot_be_added_to(
    gateway: MemoryGateway, ada: dict[str, str], conversation: str
) -> None:
    with pytest.raises(InvalidInput):
        await gateway.add(add(ada, "Tea.", session=f"chat:{conversation}"))
    with pytest.raises(InvalidInput):
        wire.GatewaySearchRequest(query="tea", conversation_id=conversation)


async def test_a_missing_resource_accepts_no_messages(gateway: MemoryGateway, ada: dict[str, str]) -> None:
    with pytest.raises(NotFound):
        await gateway.add(add(ada, "Tea.", session=MISSING))
    with pytest.raises(PermissionRefused):
        await gateway.add(add(ada, "Tea.", session=MISSING.replace("ada", "bob")))
    assert (await gateway.usage("ada")).messages == 0


async def test_messages_added_to_a_resource_are_found_in_it(gateway: MemoryGateway, ada: dict[str, str]) -> None:
    taken = await gateway.upload(
        wire.PlacedRequest(**ada), UploadedFile(b"Payment is due in thirty days.", file_name="t.txt")
    )
    await gateway.add(add(ada, "The boiler stands in the cellar.", session=taken.session_id))
    assert await texts(gateway, ada, "boiler", scope=["resources"], top_k=1) == ["The boiler stands in the cellar."]
    failed = await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(b"", file_name="empty.txt"))
    with pytest.raises(InvalidInput, match="retry"):
        await gateway.add(add(ada, "Tea.", session=failed.session_id))


async def test_a_tool_answer_needs_only_the_four_reference_fields(
    memory: elytron.MemoryRuntime, gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    message = said("It rains in Lisbon.", role="tool")
    await gateway.add(add(ada, messages=[message]))
    assert await texts(gateway, ada, "Lisbon", scope=["all_user_memory"]) == ["It rains in Lisbon."]
    behind = MemoryGateway(memory, upstream=EverOsUpstream(server.url, clock=memory.context.clock))
    with pytest.raises(InvalidInput, match="tool_call_id"):
        await behind.add(add(ada, messages=[message]))


async def test_an_answer_based_on_a_page_is_marked_as_from_outside(
    memory: elytron.MemoryRuntime, gateway: MemoryGateway, ada: dict[str, str]
) -> None:
    answers = [said(text, role="assistant") for text in ("The lighthouse opens at nine.", "The lighthouse is red.")]
    await gateway.add(add(ada, messages=answers[:1], external_content_used=True))
    await gateway.add(add(ada, messages=answers[1:]))
    hits = (await memory.recall("lighthouse", user_id="ada")).hits
    assert {hit.text: hit.trust for hit in hits} == {
        "The lighthouse opens at nine.": TrustLevel.OUTSIDE,
        "The lighthouse is red.": TrustLevel.DRAWN,
    }


async def test_raw_data_under_an_override_describes_the_memory_itself(
    gateway: MemoryGateway, ada: dict[str, str]
) -> None:
    await gateway.add(add(ada, "The boiler code is 4417."))
    asked = {**ada, "scope": ["all_user_memory"]}
    (first,) = (
        await gateway.search(wire.GatewaySearchRequest.model_validate(asked | {"query": "boiler code"}))
    ).results
    place = {"memory_id": first.id, "session_id": first.session_id}
    await gateway.override(wire.OverrideRequest.model_validate({**ada, **place, "text": "The furnace PIN is 9920."}))
    for query in ("furnace PIN", "boiler code"):
        (found,) = (await gateway.search(wire.GatewaySearchRequest.model_validate(asked | {"query": query}))).results
        assert (found.text, found.overridden) == ("The furnace PIN is 9920.", True)
        assert found.raw["text"] == "The boiler code is 4417."


async def test_a_server_accepts_the_file_kinds_and_sizes_its_operator_allows(
    memory: elytron.MemoryRuntime, ada: dict[str, str]
) -> None:
    async with open_surfaces(memory, SurfaceOptions(types=("text/markdown",), upload_bytes=20)) as told:
        app = create_app(memory, authenticator=DevelopmentCallers(), further=told.further)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            files = {"a.md": b"# Terms", "b.html": b"<p>Terms</p>", "c.md": b"x" * 21}
            sent = [await client.post("/resources", data=ada, files={"file": item}) for item in files.items()]
    assert [answer.status_code for answer in sent] == [200, 415, 413]
    with pytest.raises(InvalidInput, match="--resource-type"):
        async with open_surfaces(memory, SurfaceOptions(types=("image/png",))):
            pass
