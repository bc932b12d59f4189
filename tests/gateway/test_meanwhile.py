"""A gateway's answers when another server does the same between two of its steps."""

from collections.abc import AsyncIterator

import pytest
from tests.sdk.meanwhile import Meanwhile

import elytron
from elytron_core.errors import NotFound
from elytron_core.planes.servers.gateway import ATTACHMENTS, RESOURCES
from elytron_gateway import wire
from elytron_gateway.messages import MessageUpload
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import MemoryGateway
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> Meanwhile:
    return Meanwhile(MemoryStore())


@pytest.fixture
async def gateway(store: Meanwhile) -> AsyncIterator[MemoryGateway]:
    async with elytron.open(store, space=None) as memory:
        yield MemoryGateway(memory)


@pytest.fixture
async def other(store: Meanwhile) -> AsyncIterator[MemoryGateway]:
    async with elytron.open(store.inner, space=None) as memory:
        yield MemoryGateway(memory)


@pytest.fixture
async def ada(other: MemoryGateway) -> wire.PlacedRequest:
    return wire.PlacedRequest(**(await other.create_user(wire.UserRequest(user_id="ada"))).model_dump())


async def test_a_faster_repeat_with_files_gets_the_same_answer(
    gateway: MemoryGateway, other: MemoryGateway, store: Meanwhile, ada: wire.PlacedRequest
) -> None:
    content = [{"type": "image", "upload_id": "i", "ext": "png"}]
    said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": content}
    request = wire.GatewayAddRequest.model_validate({**ada.model_dump(), "session_id": "chat:c", "messages": [said]})
    uploads = {"i": MessageUpload("i.png", "image/png", b"\x89PNG")}
    quicker: list[wire.AddAnswer] = []

    async def add() -> None:
        quicker.append(await other.add(request, uploads=uploads, idempotency_key="k"))

    store.behind_reading(ATTACHMENTS, add)
    assert [await gateway.add(request, uploads=uploads, idempotency_key="k")] == quicker
    assert (await gateway.usage("ada")).messages == 1


async def test_a_resource_reprocessed_during_its_deletion_is_gone(
    gateway: MemoryGateway, other: MemoryGateway, store: Meanwhile, ada: wire.PlacedRequest
) -> None:
    made = await other.upload(ada, UploadedFile(b"Thirty days.", file_name="t.txt"))
    store.behind_reading(RESOURCES, lambda: other.retry_resource(ada, made.resource_id))
    await gateway.delete_resource(ada, made.resource_id)
    assert store.is_over
    assert (await other.resources(ada)).resources == ()
    assert (await other.usage("ada")).resources == 0


async def test_a_resource_deleted_by_another_server_is_not_found(
    gateway: MemoryGateway, other: MemoryGateway, store: Meanwhile, ada: wire.PlacedRequest
) -> None:
    made = await other.upload(ada, UploadedFile(b"Thirty days.", file_name="t.txt"))
    store.behind_reading(RESOURCES, lambda: other.delete_resource(ada, made.resource_id))
    with pytest.raises(NotFound):
        await gateway.delete_resource(ada, made.resource_id)
    assert (await other.usage("ada")).resources == 0
