"""The passage of one answer to its client: asked for, begun, and given as it comes."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elytron_models.fields import Fields, fields_of
from elytron_proxy import limits
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
    space: str
    """The space of the caller, which keeps the names that clients give to their calls apart."""


@dataclass(slots=True)
class Told:
    """Headers of memory in an answer."""

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


@dataclass(slots=True)
class Read:
    """An answer whose beginning was looked at: `data`, and the `rest` that is to come."""

    rest: AsyncGenerator[bytes]
    data: bytearray = field(default_factory=bytearray)
    is_broken: bool = False

    async def look(self) -> Fields:
        """Return the object that a short answer holds; an empty one for any other."""
        import httpx

        try:
            async for chunk in self.rest:
                self.data += chunk
                if len(self.data) > limits.ERROR_BYTES:
                    return {}
        except httpx.HTTPError:
            self.is_broken = True
        return fields_of(bytes(self.data)) or {}


class Passage:
    """The way of an answer's bytes to the client, without memory: as they come."""

    def __init__(self, upstreams: Upstreams, figures: Figures, send: Send, /) -> None:
        self._upstreams = upstreams
        self._figures = figures
        self._send = send
        self._asked_at: float | None = time.perf_counter()
        self.is_left = False
        """True if the client left: nothing more is sent."""

    async def ask(self, asked: Asked, /, *, model: str) -> "httpx.Response":
        """Return the upstream's answer. Raises Refused."""
        try:
            return await self._upstreams.send(
                self._upstreams.of_model(model),
                asked.method,
                asked.path,
                query=asked.query,
                headers=asked.headers,
                space=asked.space,
                body=asked.body if asked.body or asked.method not in {"GET", "HEAD"} else None,
            )
        except Unanswered as error:
            self._figures.count(Figure.UNREACHABLE)
            raise Refused(error.refusal) from None

    async def begin(self, response: "httpx.Response", told: Told, /, *, without: str = "") -> None:
        """Send the head of the answer, without the header of that name."""
        if self.is_left:
            return
        given = [pair for pair in response.headers.multi_items() if pair[0].lower() != without]
        pairs = names.client_headers(given, keys=self._upstreams.keys)
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": _raw([*pairs, *told.pairs(), ("X-Accel-Buffering", "no")]),
            }
        )

    async def give(self, data: bytes, /, *, is_last: bool = False) -> None:
        """Send a piece of the body."""
        if self.is_left:
            return
        if data and self._asked_at is not None:
            self._figures.first_byte(time.perf_counter() - self._asked_at)
            self._asked_at = None
        if data or is_last:
            self._figures.count(Figure.ANSWER_BYTES, len(data))
            await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})

    async def all(self, response: "httpx.Response", told: Told, /, *, read: Read | None = None) -> None:
        """Send an answer as it comes, after what was `read` of it. If it breaks off, it does so for the client too."""
        import httpx

        read = read or Read(chunks_of(response))
        mask = KeyMask(self._upstreams.keys)
        try:
            await self.begin(response, told)
            await self.give(mask.feed(bytes(read.data)))
            async for chunk in read.rest:
                await self.give(mask.feed(chunk))
            await self.give(mask.end(), is_last=not read.is_broken)
        except httpx.HTTPError:
            return  # without its end, the server closes the connection
        finally:
            await response.aclose()


def _raw(pairs: Pairs) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in pairs]
