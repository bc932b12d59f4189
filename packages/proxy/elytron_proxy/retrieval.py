"""Retrieval of stored responses by their owner: one shown, its input listed, one deleted."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote

from elytron_models.fields import Fields, fields, text
from elytron_proxy import limits
from elytron_proxy.caller import Caller
from elytron_proxy.dialects import Refusal
from elytron_proxy.memory import Memory
from elytron_proxy.response_store import ResponseStore, StoredResponse
from elytron_proxy.wire.passage import Asked, Refused

PATHS: Final = ("/v1/responses/{id}", "/v1/responses/{id}/input_items", "/v1/responses/{id}/cancel")
_PATH: Final = re.compile(r"/v1/responses/([^/]+)(/input_items|/cancel)?")
_WAYS: Final = {("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")}
_ENDED: Final = Refusal(400, "invalid_input", "this response has ended: only one in the background can be cancelled")
_NO_STREAM: Final = Refusal(400, "invalid_input", "this response has ended: ask for it without `stream`")
_BAD_PAGE: Final = Refusal(
    400, "invalid_input", f"`limit` is 1 to {limits.INPUT_ITEMS}, `order` asc or desc, `after` the id of an item"
)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Request for one response."""

    name: str
    method: str
    below: str


def retrieval_of(asked: Asked, /) -> Retrieval | None:
    """Return what a request asks of a response; None for any other request."""
    found = _PATH.fullmatch(asked.path)
    if found is None or (asked.method, found[2] or "") not in _WAYS:
        return None
    return Retrieval(unquote(found[1]), asked.method, found[2] or "")


async def retrieved(
    memory: Memory, responses: ResponseStore, caller: Caller, asked: Asked, retrieval: Retrieval, /
) -> Fields | None:
    """Return the answer from what is stored for the caller; None if the response is not.

    Raises Refused, MemoryDown.
    """
    await memory.settle(caller)
    stored = await responses.find(caller, retrieval.name)
    if stored is None:
        return None
    query = {name: told[-1] for name, told in parse_qs(asked.query).items()}
    match retrieval.method, retrieval.below:
        case "POST", _:
            raise Refused(_ENDED)
        case "DELETE", _:
            await responses.delete(caller, stored)
            return {"id": stored.name, "object": "response", "deleted": True}
        case _, "/input_items":
            return _page(_items(stored), query)
        case _:
            if query.get("stream", "").lower() == "true":
                raise Refused(_NO_STREAM)
            return stored.response


def _items(stored: StoredResponse) -> list[Fields]:
    """Return the input's items as the API lists them: each with an id, and content as parts."""
    found: list[Fields] = []
    for place, item in enumerate(stored.items):
        told = dict(fields(item))
        told["id"] = text(told, "id") or f"{stored.name}-input-{place}"
        if isinstance(told.get("content"), str):
            kind = "output_text" if text(told, "role") == "assistant" else "input_text"
            told["content"] = [{"type": kind, "text": told["content"]}]
        if text(told, "role"):
            told = {"type": "message", "status": "completed", **told}
        found.append(told)
    return found


def _page(items: list[Fields], query: dict[str, str]) -> Fields:
    """Return the page of items that a query asks for, the last first by default. Raises Refused."""
    limit, order, after = query.get("limit", "20"), query.get("order", "desc"), query.get("after")
    if order not in {"asc", "desc"} or not re.fullmatch(r"[0-9]{1,3}", limit):
        raise Refused(_BAD_PAGE)
    items = list(reversed(items)) if order == "desc" else items
    names = [text(item, "id") for item in items]
    if not 1 <= int(limit) <= limits.INPUT_ITEMS or (after is not None and after not in names):
        raise Refused(_BAD_PAGE)
    start = names.index(after) + 1 if after is not None else 0
    end = start + int(limit)
    page = names[start:end]
    return {
        "object": "list",
        "data": items[start:end],
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
        "has_more": end < len(items),
    }
