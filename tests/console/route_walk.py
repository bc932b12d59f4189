"""Requests to every described route, generated from the description of parameters and bodies."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

METHODS = frozenset({"get", "put", "post", "patch", "delete"})
JSON = "application/json"
TEXT = "The boat is green."
QUERIED = 6
"""Ids tried as query values."""
FORMED = ("a1", "runtime_skill__boat")
"""Texts for fields with a format of their own."""
NAMING = re.compile(r"(^|_)(ids?|keys?|names?|conversation|label|namespace|cursor|after|before|citations)$")
"""Fields that take the name of a stored object."""

Body = dict[str, Any]


@dataclass(frozen=True)
class DescribedRoute:
    """One route of a server: method, path, query names, and body."""

    method: str
    path: str
    access: str
    query: tuple[str, ...]
    media_type: str | None
    schema: Body

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def has_places(self) -> bool:
        """True if the path has parameters."""
        return "{" in self.path

    def at(self, one: str, /) -> str:
        """Return the path with `one` for each of its parameters."""
        return re.sub(r"\{\w+\}", quote(one, safe=""), self.path)


@dataclass(frozen=True)
class SentRequest:
    """A request, and whether it names an id of another user."""

    method: str
    path: str
    params: Mapping[str, str]
    content: bytes | None
    media_type: str | None
    names_ids: bool = False


def described_routes(description: Body, /) -> list[DescribedRoute]:
    """Return the routes of an OpenAPI document: destructive ones last, the deepest path first."""
    found: list[DescribedRoute] = []
    for path, methods in description["paths"].items():
        for method in METHODS.intersection(methods):
            told = methods[method]
            query = tuple(one["name"] for one in told.get("parameters", ()) if one.get("in") == "query")
            taken = told.get("requestBody", {}).get("content", {})
            media_type: str | None = next(iter(taken), None)
            schema: Body = taken[media_type].get("schema", {}) if media_type is not None else {}
            access = told.get("x-access", "")
            found.append(DescribedRoute(method.upper(), path, access, query, media_type, schema))
    return sorted(found, key=lambda route: (route.method == "DELETE", -route.path.count("/"), route.name))


@dataclass(frozen=True)
class RouteWalk:
    """Generates requests to a route with another user's space or ids; `own` are values by field name."""

    components: Mapping[str, Body]
    ids: Sequence[str]
    space: str
    own: Mapping[str, str]
    asked: Mapping[str, str]
    """Query values by name."""
    bodies: Mapping[str, Sequence[Any]]
    """Bodies of routes whose description is incomplete."""

    def requests(self, route: DescribedRoute, /) -> Iterator[SentRequest]:
        """Yield each request to `route`: without an id, and with every id where it takes one."""
        own = {name: self.asked[name] for name in route.query if name in self.asked}
        spaces = (self.own["space"], self.space)
        other = [own, *(own | {"space": space} for space in spaces)] if "space" in route.query else [own]
        plain = [(params, content) for content in self._plain_bodies(route) for params in other]
        ids = self.ids if route.access != "operator" else self.ids[:2]
        if route.has_places:
            for place, path in enumerate(map(route.at, ids)):
                for params, content in plain[: None if place == 0 else 1]:
                    yield SentRequest(route.method, path, params, content, route.media_type, names_ids=True)
            return
        for params, content in plain:
            names_ids = any(one.encode() in (content or b"") for one in ids)
            yield SentRequest(route.method, route.path, params, content, route.media_type, names_ids)
        for content in self._naming_bodies(route, ids):
            yield SentRequest(route.method, route.path, own, content, route.media_type, names_ids=True)
        for name in filter(NAMING.search, set(route.query) - {"space"} - own.keys()):
            for one in ids[:QUERIED]:
                yield SentRequest(route.method, route.path, {name: one}, plain[0][1], route.media_type, names_ids=True)

    def _plain_bodies(self, route: DescribedRoute) -> Iterator[bytes | None]:
        """Yield bodies without ids: for the caller's own space and the other one."""
        told = self.bodies.get(route.name, () if route.media_type == JSON else (None,))
        yield from (body if body is None or isinstance(body, bytes) else json.dumps(body).encode() for body in told)
        if route.media_type == JSON:
            made = schema_value(self.components, route.schema, TEXT, self.own)
            yield json.dumps(made).encode()
            properties = resolve(self.components, route.schema).get("properties", {})
            for name, value in (("scope", {"space": self.space}), ("space", self.space)):
                if name in properties:
                    yield json.dumps({**made, name: value}).encode()

    def _naming_bodies(self, route: DescribedRoute, ids: Sequence[str]) -> Iterator[bytes]:
        """Yield bodies with every id, for each field that takes one."""
        if route.media_type != JSON:
            return
        plain = schema_value(self.components, route.schema, TEXT, self.own)
        if not isinstance(plain, dict):
            return
        properties = resolve(self.components, route.schema).get("properties", {})
        for one in ids:
            body = schema_value(self.components, route.schema, one, self.own)
            if body != plain:
                yield json.dumps(body).encode()
            for name in properties.keys() - self.own.keys() - body.keys():
                value = schema_value(self.components, properties[name], one, self.own)
                if NAMING.search(name) and value in (one, [one]):
                    yield json.dumps({**plain, name: value}).encode()


def resolve(components: Mapping[str, Body], schema: Body) -> Body:
    """Return the target of a schema reference."""
    while "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    return schema


def schema_value(components: Mapping[str, Body], schema: Body, text: str, own: Mapping[str, str]) -> Any:
    """Return a value that matches `schema`, with `text` where any text is allowed."""
    schema = resolve(components, schema)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return schema_value(components, schema[choice][0], text, own)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            cut = text[: schema.get("maxLength")]
            return next((one for one in (cut, *FORMED) if re.search(schema.get("pattern", ""), one)), cut)
        case "integer" | "number":
            return max(schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return False
        case "array" if "prefixItems" in schema:
            return [schema_value(components, item, text, own) for item in schema["prefixItems"]]
        case "array":
            return [schema_value(components, schema.get("items", {}), text, own)]
        case "object":
            properties = schema.get("properties", {})
            wanted = dict.fromkeys((*schema.get("required", ()), *(name for name in properties if name in own)))
            return {
                name: own[name] if name in own else schema_value(components, properties.get(name, {}), text, own)
                for name in wanted
            }
        case _:
            return text
