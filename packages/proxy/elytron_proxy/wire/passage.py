"""The passage of one answer to its client: asked for, begun, and given as it comes."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elytron_proxy.dialects import Refusal
from elytron_proxy.figures import Figure, Figures
from elytron_proxy.wire import headers as names
from elytron_proxy.wire.headers import Pairs
from elytron_proxy.wire.relay import KeyMask
from elytron_proxy.wire.upstream import Unanswered, Upstreams, chunks_of

if TYPE_CHECKING:
    import httpx

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Refused(Exception):
    """A call is refused before anything went upstream."""

    def __init__(self, refusal: Refusal, /) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in. `path` is the model API's own."""

    method: str
    path: str
    query: str
    headers: Pairs
    body: bytes


@dataclass(slots=True)
class Told:
    """What the headers of an answer say of memory."""

    memory: str
    turn: str = ""
    recalled: int = 0
    recall_ms: float | None = None

    def pairs(self) -> Pairs:
        """Return the headers."""
        found = [(names.MEMORY, self.memory)]
        if self.turn:
            found.append((names.TURN, self.turn))
        if self.recall_ms is not None:
            found.append((names.RECALLED, str(self.recalled)))
            found.append((names.TIMING, f"recall;dur={self.recall_ms:.1f}"))
        return found


class Passage:
    """The way of an answer's bytes to the client, without memory: as they come."""

    def __init__(self, upstreams: Upstreams, figures: Figures, send: Send, /) -> None:
        self._upstreams = upstreams
        self._figures = figures
        self._send = send

    async def ask(self, asked: Asked, /, *, model: str) -> "httpx.Response":
        """Return the upstream's answer. Raises Refused."""
        try:
            return await self._upstreams.send(
                self._upstreams.of_model(model),
                asked.method,
                asked.path,
                query=asked.query,
                headers=asked.headers,
                body=asked.body if asked.body or asked.method not in {"GET", "HEAD"} else None,
            )
        except Unanswered as error:
            self._figures.count(Figure.UNREACHABLE)
            raise Refused(error.refusal) from None

    async def begin(self, response: "httpx.Response", told: Told, /) -> None:
        """Send the head of the answer."""
        pairs = names.client_headers(response.headers.multi_items(), keys=self._upstreams.keys)
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": _raw([*pairs, *told.pairs(), ("X-Accel-Buffering", "no")]),
            }
        )

    async def give(self, data: bytes, /, *, is_last: bool = False) -> None:
        """Send a piece of the body."""
        if data or is_last:
            await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})

    async def all(self, response: "httpx.Response", told: Told, /) -> None:
        """Send an answer as it comes. One that breaks off breaks off for the client too."""
        import httpx

        mask = KeyMask(self._upstreams.keys)
        try:
            await self.begin(response, told)
            async for chunk in chunks_of(response):
                await self.give(mask.feed(chunk))
            await self.give(mask.end(), is_last=True)
        except httpx.HTTPError:
            return  # without its end, the server closes the connection
        finally:
            await response.aclose()


def _raw(pairs: Pairs) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in pairs]
