"""What a gateway answers where another server does the same between two of its steps."""

from collections.abc import AsyncIterator

import pytest
from tests.sdk.meanwhile import Meanwhile

import elytron
from elytron_core.errors import NotFound
from elytron_core.planes.gateway import ATTACHMENTS, RESOURCES
from elytron_gateway import wire
from elytron_gateway.messages import Upload
from elytron_gateway.resources import Given
from elytron_gateway.service import Gateway
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> Meanwhile:
    return Meanwhile(MemoryStore())


@pytest.fixture
async def gateway(store: Meanwhile) -> AsyncIterator[Gateway]:
    async with elytron.open(store, space=None) as memory:
        yield Gateway(memory)


@pytest.fixture
async def other(store: Meanwhile) -> AsyncIterator[Gateway]:
    async with elytron.open(store.inner, space=None) as memory:
        yield Gateway(memory)


@pytest.fixture
async def ada(other: Gateway) -> wire.Placed:
    return wire.Placed(**(await other.create_user(wire.UserRequest(user_id="ada"))).model_dump())


async def test_a_repeat_with_files_that_was_quicker_is_answered_alike(
    gateway: Gateway, other: Gateway, store: Meanwhile, ada: wire.Placed
) -> None:
    content = [{"type": "image", "upload_id": "i", "ext": "png"}]
    said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": content}
    request = wire.AddRequest.model_validate({**ada.model_dump(), "session_id": "chat:c", "messages": [said]})
    uploads = {"i": Upload("i.png", "image/png", b"\x89PNG")}
    quicker: list[wire.AddAnswer] = []

    async def add() -> None:
        quicker.append(await other.add(request, uploads=uploads, idempotency_key="k"))

    store.behind_reading(ATTACHMENTS, add)
    assert [await gateway.add(request, uploads=uploads, idempotency_key="k")] == quicker
    assert (await gateway.usage("ada")).messages == 1


async def test_a_resource_that_is_read_anew_while_it_is_deleted_is_gone(
    gateway: Gateway, other: Gateway, store: Meanwhile, ada: wire.Placed
) -> None:
    made = await other.upload(ada, Given(b"Thirty days.", file_name="t.txt"))
    store.behind_reading(RESOURCES, lambda: other.retry_resource(ada, made.resource_id))
    await gateway.delete_resource(ada, made.resource_id)
    assert store.is_over
    assert (await other.resources(ada)).resources == ()
    assert (await other.usage("ada")).resources == 0


async def test_a_resource_that_another_deletes_first_is_missed(
    gateway: Gateway, other: Gateway, store: Meanwhile, ada: wire.Placed
) -> None:
    made = await other.upload(ada, Given(b"Thirty days.", file_name="t.txt"))
    store.behind_reading(RESOURCES, lambda: other.delete_resource(ada, made.resource_id))
    with pytest.raises(NotFound):
        await gateway.delete_resource(ada, made.resource_id)
    assert (await other.usage("ada")).resources == 0
