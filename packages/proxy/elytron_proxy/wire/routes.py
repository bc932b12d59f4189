"""Routes of model APIs that a proxy passes: a closed list, because a vendor's account is lent for what stands here.

A request that neither this list nor the operator (`--pass`) names never reaches a model server.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from elytron_core.errors import InvalidInput

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_SEGMENT: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+"
"""A part of a path as it comes over the wire: no slash, no blank, nothing that begins a query or another authority."""
_TEMPLATE: Final = re.compile(rf"(?:/(?:{_SEGMENT}|\{{id\}}|\{{name\}}))+")


@dataclass(frozen=True)
class PassRoute:
    """A method and a path that pass; `{id}` stands for one segment, `{name}` for the rest of the path."""

    method: str
    path: str
    is_owned: bool = False
    """True if what it names belongs to somebody: it passes for operators alone, others see their own through memory."""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = [{"{id}": _SEGMENT, "{name}": rf"{_SEGMENT}(?:/{_SEGMENT})*"}.get(part, re.escape(part))
                 for part in self.path.split("/")]  # fmt: skip
        return re.compile("/".join(parts))

    def matches(self, method: str, path: str, /) -> bool:
        """Return whether a request with this method and raw path is one of this route."""
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


def pass_routes_of(texts: Iterable[str], /) -> tuple[PassRoute, ...]:
    """Return the further routes that an operator writes as `METHOD:/path`. Raises InvalidInput."""
    return tuple(_pass_route(text) for text in texts)


def route_of(method: str, path: str, routes: Iterable[PassRoute], /) -> PassRoute | None:
    """Return the route of a request by its raw path; None if it does not pass."""
    return next((route for route in routes if route.matches(method, path)), None)


def _pass_route(text: str) -> PassRoute:
    method, _, path = text.partition(":")
    if method.upper() not in _METHODS or not _TEMPLATE.fullmatch(path):
        raise InvalidInput(field="pass", problem="names a route as METHOD:/path, such as GET:/v1/files/{id}")
    return PassRoute(method.upper(), path)
