"""Remote content is read only from the hosts and folders that an operator names."""

import asyncio
import gzip
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

import elytron
from elytron_core.errors import InvalidInput, NotFound, PayloadTooLarge, PermissionRefused, Unreachable
from elytron_gateway import limits as gateway_limits
from elytron_gateway.resources import AllowedSources, read_source
from elytron_gateway.service import GatewayOptions, MemoryGateway
from elytron_gateway.wire import GatewayAddRequest, GatewaySearchRequest, UserRequest

pytestmark = pytest.mark.anyio

BOMB = gzip.compress(bytes(64 * 1024 * 1024), compresslevel=1)
HERE = AllowedSources(hosts=frozenset({"127.0.0.1"}))


async def page(request: Request) -> Response:
    match request.path_params["name"]:
        case "terms.txt":
            return PlainTextResponse("Payment in thirty days.")
        case "away":
            return RedirectResponse("http://localhost/terms.txt")
        case "round":
            return RedirectResponse("/round")
        case "odd":
            return Response(status_code=302, headers={"Location": "http://[/terms.txt"})
        case "on":
            return RedirectResponse("/terms.txt")
        case "packed":
            headers = {"Content-Encoding": "gzip"}
            return Response(gzip.compress(b"Payment in thirty days."), headers=headers, media_type="text/plain")
        case "bomb":
            return Response(BOMB, headers={"Content-Encoding": "gzip"}, media_type="text/plain")
        case "nested":
            return Response(gzip.compress(BOMB), headers={"Content-Encoding": "gzip, gzip"}, media_type="text/plain")
        case "unpacked":
            return Response(b"plain", headers={"Content-Encoding": "gzip"}, media_type="text/plain")
        case _:
            return Response(status_code=404)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=[Route("/{name}", page)]), log_level="error"))
    thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=100)
    assert not thread.is_alive()
    listening.close()


async def test_compressed_content_is_counted_unpacked_and_nested_compression_is_refused(url: str) -> None:
    assert (await read_source(f"{url}/packed", HERE, max_bytes=1_000)).data == b"Payment in thirty days."
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            await read_source(f"{url}/bomb", HERE, max_bytes=1_000_000)
        for name in ("nested", "unpacked"):
            with pytest.raises(Unreachable, match="compressed"):
                await read_source(f"{url}/{name}", HERE, max_bytes=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


async def test_an_allowed_host_is_fetched_and_its_redirects_followed_within_the_rules(url: str) -> None:
    for name in ("terms.txt", "on"):
        given = await read_source(f"{url}/{name}", HERE, max_bytes=1_000)
        assert (given.data, given.file_name, given.source) == (b"Payment in thirty days.", name, f"{url}/{name}")
    with pytest.raises(PermissionRefused):
        await read_source(f"{url}/away", HERE, max_bytes=1_000)
    with pytest.raises(PermissionRefused, match="redirects more"):
        await read_source(f"{url}/round", HERE, max_bytes=1_000)
    with pytest.raises(NotFound):
        await read_source(f"{url}/nothing", HERE, max_bytes=1_000)
    with pytest.raises(PayloadTooLarge):
        await read_source(f"{url}/terms.txt", HERE, max_bytes=5)


@pytest.mark.parametrize(
    "odd", ["http://[", "http://127.0.0.1:99999/x", "http://127.0.0.1:x/", "https://[::1/x", "file://["]
)
async def test_an_invalid_address_is_rejected(odd: str) -> None:
    with pytest.raises((InvalidInput, PermissionRefused)):
        await read_source(odd, HERE, max_bytes=10)


async def test_a_redirect_to_an_odd_address_is_not_followed(url: str) -> None:
    with pytest.raises(PermissionRefused):
        await read_source(f"{url}/odd", HERE, max_bytes=10)


async def test_a_name_that_resolves_to_a_private_network_is_refused() -> None:
    with pytest.raises(PermissionRefused, match="private"):
        await read_source("http://localhost:9/x", AllowedSources(hosts=frozenset({"localhost"})), max_bytes=10)


async def test_other_hosts_are_refused_before_anything_is_sent(url: str) -> None:
    for address in (f"{url}/terms.txt", "http://me@127.0.0.1/x", "https://example.com/x"):
        allowed = HERE if "@" in address else AllowedSources()
        with pytest.raises(PermissionRefused):
            await read_source(address, allowed, max_bytes=10)
    for address in ("ftp://127.0.0.1/x", "nonsense"):
        with pytest.raises(InvalidInput):
            await read_source(address, HERE, max_bytes=10)
    with pytest.raises(Unreachable):
        await read_source("http://127.0.0.1:9/x", HERE, max_bytes=10)
    with pytest.raises(Unreachable, match="cannot be resolved"):
        await read_source("http://nobody.invalid/x", AllowedSources(hosts=frozenset({"nobody.invalid"})), max_bytes=10)


async def test_a_folder_is_read_and_no_symlink_leads_out_of_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "a b.txt").write_text("Hello.")
    (outside / "secret.txt").write_text("No.")
    (inside / "link.txt").symlink_to(outside / "secret.txt")
    allowed = AllowedSources(folders=(inside,))
    given = await read_source(f"file://{inside}/a%20b.txt", allowed, max_bytes=100)
    assert (given.data, given.file_name) == (b"Hello.", "a b.txt")
    for address in (
        f"file://{inside}/link.txt",
        f"file://{inside}/../outside/secret.txt",
        f"file://{outside}/secret.txt",
        f"file://{inside}/missing.txt",
        f"file://{inside}",
        f"file://elsewhere{inside}/a%20b.txt",
    ):
        with pytest.raises(PermissionRefused):
            await read_source(address, allowed, max_bytes=100)
    with pytest.raises(PayloadTooLarge):
        await read_source(f"file://{inside}/a%20b.txt", allowed, max_bytes=3)


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[MemoryGateway]:
    async with elytron.open("memory:", space=None) as memory:
        yield MemoryGateway(memory, options=GatewayOptions(allowed=AllowedSources(folders=(tmp_path / "shared",))))


async def test_a_message_may_name_files_only_in_shared_folders(
    shared: MemoryGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    for name in ("shared/terms.html", "secret.html"):
        (tmp_path / name).write_text("<p>Payment is due in thirty days.</p>")
    ada = (await shared.create_user(UserRequest(user_id="ada"))).model_dump()

    def naming(*names: str) -> GatewayAddRequest:
        content = [{"type": "html", "uri": (tmp_path / name).as_uri()} for name in names]
        said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": content}
        return GatewayAddRequest.model_validate({**ada, "session_id": "chat:c", "messages": [said]})

    answer = await shared.add(naming("shared/terms.html"))
    assert [(one.name, one.size) for one in answer.attachments] == [("terms.html", 37)]
    found = await shared.search(GatewaySearchRequest(**ada, query="when is payment due?", scope=("all_user_memory",)))
    assert "Payment is due in thirty days." in found.results[0].text
    for name in ("secret.html", "shared/../secret.html"):
        with pytest.raises(PermissionRefused):
            await shared.add(naming(name))
    monkeypatch.setattr(gateway_limits, "RESOURCE_BYTES", 60)
    with pytest.raises(PayloadTooLarge):
        await shared.add(naming("shared/terms.html", "shared/terms.html"))
