"""Settings of the proxy: where requests go, how memory takes part, and whose headers are trusted."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from elytron_core.errors import InvalidInput
from elytron_proxy import limits

SILENCE_S: Final = 600.0
"""The longest silence of an upstream, before its answer and within it."""
MAX_UPSTREAMS: Final = 16


KEY: Final = "ELYTRON_LLM_UPSTREAM_KEY"
DEFAULT_UPSTREAM: Final = "http://127.0.0.1:8000"
PORT: Final = 8787
_TAILS: Final = (
    ("v1",),
    ("chat", "completions"),
    ("responses",),
    ("messages",),
    ("api", "chat"),
    ("api", "generate"),
)
"""Suffixes of addresses that belong to a call, and not to the base of a model server."""
_PREFIXED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._:/-]{0,99})=(https?://.*)", re.DOTALL)
_PRINTABLE: Final = re.compile(r"[!-~]{1,4096}")

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_SEGMENT: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+"
"""A part of a path as received: no slash, no blank, nothing that begins a query or another authority."""
_TEMPLATE: Final = re.compile(rf"(?:/(?:{_SEGMENT}|\{{id\}}|\{{name\}}))+")


class BlockPlacement(StrEnum):
    """Placement of the block in a request."""

    TAIL = "tail"
    """After the words of the last user message: everything before it stays a prefix that the provider has cached."""
    SYSTEM = "system"
    """At the end of the system prompt."""
    BEFORE = "before"
    """Before the history."""


class MemoryUse(StrEnum):
    """How a call uses memory."""

    ON = "on"
    READ = "read"
    """Recall, but commit nothing."""
    WRITE = "write"
    """Commit, but recall nothing."""
    OFF = "off"
    REQUIRED = "required"
    """Like `on`; without memory the call is refused."""

    @property
    def reads(self) -> bool:
        return self in {MemoryUse.ON, MemoryUse.READ, MemoryUse.REQUIRED}

    @property
    def without_writes(self) -> "MemoryUse":
        """Return the remaining use if nothing can be stored."""
        return MemoryUse.READ if self.reads else MemoryUse.OFF

    @property
    def writes(self) -> bool:
        return self in {MemoryUse.ON, MemoryUse.WRITE, MemoryUse.REQUIRED}


@dataclass(frozen=True, slots=True)
class ModelUpstream:
    """A model server: its base URL, the prefixes of its models' names, and its key."""

    url: str
    prefix: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class PassRoute:
    """A method and a path that are passed on; `{id}` is one segment, `{name}` the rest of the path."""

    method: str
    path: str
    is_owned: bool = False
    """True if it names one user's object: it is passed on only for operators, others see theirs through memory."""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = [{"{id}": _SEGMENT, "{name}": rf"{_SEGMENT}(?:/{_SEGMENT})*"}.get(part, re.escape(part))
                 for part in self.path.split("/")]  # fmt: skip
        return re.compile("/".join(parts))

    def matches(self, method: str, path: str, /) -> bool:
        """Return whether a request with this method and raw path matches this route."""
        return method == self.method and self._pattern.fullmatch(path) is not None


PASS_ROUTES: Final = (
    PassRoute("POST", "/v1/chat/completions"),
    PassRoute("POST", "/v1/completions"),
    PassRoute("POST", "/v1/responses"),
    PassRoute("GET", "/v1/responses/{id}", is_owned=True),
    PassRoute("DELETE", "/v1/responses/{id}", is_owned=True),
    PassRoute("POST", "/v1/responses/{id}/cancel", is_owned=True),
    PassRoute("GET", "/v1/responses/{id}/input_items", is_owned=True),
    PassRoute("POST", "/v1/messages"),
    PassRoute("POST", "/v1/messages/count_tokens"),
    PassRoute("POST", "/v1/embeddings"),
    PassRoute("POST", "/v1/moderations"),
    PassRoute("GET", "/v1/models"),
    PassRoute("GET", "/v1/models/{name}"),
    PassRoute("POST", "/api/chat"),
    PassRoute("POST", "/api/generate"),
    PassRoute("POST", "/api/embed"),
    PassRoute("POST", "/api/embeddings"),
    PassRoute("POST", "/api/show"),
    PassRoute("GET", "/api/tags"),
    PassRoute("GET", "/api/ps"),
    PassRoute("GET", "/api/version"),
)


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Settings of a proxy. A caller without its own space has `space`."""

    upstreams: tuple[ModelUpstream, ...]
    placement: BlockPlacement = BlockPlacement.TAIL
    memory: MemoryUse = MemoryUse.ON
    space: str = "default"
    max_chars: int = limits.BLOCK_CHARS
    partial: bool = False
    """Also store an answer that ended by its length or a filter."""
    stateful: bool = True
    """Store responses here, so that `previous_response_id` works with every upstream."""
    finish: bool = False
    """Read an answer to its end, and store it, even if its client leaves."""
    durable: bool = False
    """Send the end of an answer only once its turn is stored; if that fails, send an error instead."""
    resend: bool = False
    """Resend a request once without sealed reasoning that its server cannot read. One that continues a stored response
    always is, because the client could not remove it."""
    audit: bool = False
    """Store the last blocks sent to a model for inspection."""
    trusted_peers: tuple[str, ...] = ()
    """Addresses and networks whose headers may name the user."""
    passed: tuple[PassRoute, ...] = ()
    """Additional routes passed on for every caller."""
    hosts: frozenset[str] | None = None
    """Allowed host names; None: the mounting server checks them."""
    silence_s: float = SILENCE_S

    def __post_init__(self) -> None:
        prefixes = [upstream.prefix for upstream in self.upstreams]
        if not 1 <= len(prefixes) <= MAX_UPSTREAMS or len(set(prefixes)) < len(prefixes):
            problem = f"must name 1 to {MAX_UPSTREAMS} model servers, each prefix once"
            raise InvalidInput(field="upstream", problem=problem)

    def is_trusted(self, address: str | None, /) -> bool:
        """Return whether the headers of a peer at `address` may name its user."""
        try:
            peer_address = ipaddress.ip_address(address or "")
        except ValueError:
            return False
        return any(peer_address in ipaddress.ip_network(network, strict=False) for network in self.trusted_peers)


def upstreams_of(texts: Iterable[str], /, *, environment: Mapping[str, str]) -> tuple[ModelUpstream, ...]:
    """Return the model servers in `texts`, written as `[PREFIX=]URL`. Raises InvalidInput.

    The key of the one without a prefix is in ELYTRON_LLM_UPSTREAM_KEY, that of another in this variable with its prefix
    appended (`claude`: ELYTRON_LLM_UPSTREAM_KEY_CLAUDE). A key is only sent to its own server.
    """
    return tuple(_parse_upstream(text, environment) for text in texts)


def pass_routes_of(texts: Iterable[str], /) -> tuple[PassRoute, ...]:
    """Return the additional routes that an operator writes as `METHOD:/path`. Raises InvalidInput."""
    return tuple(_pass_route(text) for text in texts)


def route_of(method: str, path: str, routes: Iterable[PassRoute], /) -> PassRoute | None:
    """Return the route of a request by its raw path; None if it is not passed on."""
    return next((route for route in routes if route.matches(method, path)), None)


_FOLDED: Final = frozenset({"v1", "api", "chat", "completions", "generate", "messages", "responses"})
"""Parts of the paths of model APIs that a client's base URL may repeat."""


def folded_path(method: str, path: str, passed: Iterable[PassRoute], /) -> str:
    """Return the intended route's path: a client's base URL may contain too little, or too much.

    `/chat/completions`, `/v1//chat/completions`, `/v1/v1/chat/completions` and the like are `/v1/chat/completions`. The
    built-in routes come first, so that a route which the operator passes takes no call from memory.
    """
    if not path.startswith("/"):
        return path
    parts = [part for part in path.split("/") if part]
    for start in range(len(parts)):
        if not _FOLDED.issuperset(parts[:start]):
            break
        suffix = "/" + "/".join(parts[start:])
        for candidate in (suffix, f"/v1{suffix}"):
            if route_of(method, candidate, PASS_ROUTES) is not None:
                return candidate
    plain_path = "/" + "/".join(parts)
    return plain_path if route_of(method, path, passed) is None else path


def _parse_upstream(text: str, environment: Mapping[str, str]) -> ModelUpstream:
    prefix_match = _PREFIXED.fullmatch(text)
    prefix, url = (prefix_match[1], prefix_match[2]) if prefix_match is not None else ("", text)
    key_variable = f"{KEY}_{re.sub('[^A-Za-z0-9]', '_', prefix).upper()}" if prefix else KEY
    key = environment.get(key_variable, "").strip()
    if key and not _PRINTABLE.fullmatch(key):
        raise InvalidInput(field=key_variable, problem="has characters that headers may not contain")
    return ModelUpstream(url=base_of(url), prefix=prefix, key=key)


def base_of(url: str, /) -> str:
    """Return the base of a model server, without the `/v1` that clients append. Raises InvalidInput."""
    problem = "is not the URL of a model server: write http://host:port or https://host"
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise InvalidInput(field="upstream", problem=problem) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not has_port:
        raise InvalidInput(field="upstream", problem=problem)
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput(field="upstream", problem=f"has a user, a query or a fragment; set a key in {KEY}")
    path_segments = [segment for segment in parts.path.split("/") if segment]
    # A whole call address is accepted too: what clients append to a base is cut off, as often as it is there.
    while known_tail := next(
        (known_tail for known_tail in _TAILS if path_segments[-len(known_tail) :] == list(known_tail)), None
    ):
        del path_segments[-len(known_tail) :]
    return f"{parts.scheme}://{parts.netloc}{''.join(f'/{segment}' for segment in path_segments)}"


def _pass_route(text: str) -> PassRoute:
    method, _, path = text.partition(":")
    if method.upper() not in _METHODS or not _TEMPLATE.fullmatch(path):
        raise InvalidInput(field="pass", problem="must name a route as METHOD:/path, such as GET:/v1/files/{id}")
    return PassRoute(method.upper(), path)
