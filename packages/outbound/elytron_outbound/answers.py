"""Limits on what other servers answer: the bytes of a body, and the number and size of its items."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from elytron_core.errors import LimitExceeded

if TYPE_CHECKING:
    import httpx

ItemT = TypeVar("ItemT")


async def read_body(response: "httpx.Response", /, *, limit: int) -> bytes:
    """Return the decoded body and release the connection.

    Raises LimitExceeded for a body of more than `limit` bytes, which is not read on, and httpx.HTTPError.
    """
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            _append_chunk(body, chunk, limit)
    finally:
        await response.aclose()
    return bytes(body)


async def read_beginning(response: "httpx.Response", /, *, limit: int) -> bytes:
    """Return up to `limit` bytes of the decoded body and release the connection; a broken body is returned as far as it
    came."""
    import httpx

    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk[: limit - len(body)]
            if len(body) == limit:
                break
    except (httpx.HTTPError, httpx.StreamError):
        pass
    finally:
        await response.aclose()
    return bytes(body)


async def request_within(
    client: "httpx.AsyncClient", /, method: str, url: str, *, limit: int, **options: Any
) -> "httpx.Response":
    """Return the answer to a request with its body. Raises as `read_body`."""
    response = await client.send(client.build_request(method, url, **options), stream=True)
    return _read_response(response, await read_body(response, limit=limit))


def blocking_request_within(
    client: "httpx.Client", /, method: str, url: str, *, limit: int, **options: Any
) -> "httpx.Response":
    """Return the answer to a request with its body. Raises as `read_body`."""
    response = client.send(client.build_request(method, url, **options), stream=True)
    body = bytearray()
    try:
        for chunk in response.iter_bytes():
            _append_chunk(body, chunk, limit)
    finally:
        response.close()
    return _read_response(response, bytes(body))


def _append_chunk(body: bytearray, chunk: bytes, limit: int) -> None:
    body += chunk
    if len(body) > limit:
        raise LimitExceeded(what="bytes in an answer", limit=limit)


def _read_response(response: "httpx.Response", body: bytes) -> "httpx.Response":
    """Return `response` with its decoded body, without the headers of its encoding."""
    import httpx

    framing_headers = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [pair for pair in response.headers.multi_items() if pair[0].lower() not in framing_headers]
    return httpx.Response(response.status_code, headers=headers, content=body, request=response.request)


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """Limits of a list that another server answers: its items, the characters of each, and the total."""

    items: int
    item_chars: int
    chars: int


@dataclass(frozen=True, slots=True)
class BoundedItems(Generic[ItemT]):
    """The items within the limits, in order, and how many were dropped."""

    items: tuple[ItemT, ...]
    dropped: int = 0


def bound_items(
    items: Iterable[ItemT],
    bounds: AnswerBounds,
    /,
    *,
    size: Callable[[ItemT], int],
    clip: Callable[[ItemT, int], ItemT],
) -> BoundedItems[ItemT]:
    """Return the first items within `bounds`, each clipped to its share; the rest is dropped.

    `size` counts an item's characters, and `clip` shortens it to a number of them. A caller that asks for eight results
    gets at most eight, whatever the server answers.
    """
    first_items: list[ItemT] = []
    dropped_count, remaining_chars = 0, bounds.chars
    for item in items:
        if len(first_items) == bounds.items or remaining_chars <= 0:
            dropped_count += 1
            continue
        bounded_items = (
            clip(item, min(bounds.item_chars, remaining_chars))
            if size(item) > min(bounds.item_chars, remaining_chars)
            else item
        )
        remaining_chars -= size(bounded_items)
        first_items.append(bounded_items)
    return BoundedItems(tuple(first_items), dropped_count)
