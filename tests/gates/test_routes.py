"""A route is declared in one way: a row of `Route`, from which `build_surfaces` creates what the server mounts."""

import ast

import pytest
from benchmarks.house import count_route_ways, route_ways
from tests.gates.tree import parse


def test_every_route_is_declared_by_a_row() -> None:
    ways = count_route_ways(parse)
    assert ways.keys() == {"Route"}
    assert ways["Route"] > 100


@pytest.mark.parametrize(
    ("module", "way"),
    [
        ('ROUTES = (("GET", "/v1/things", list_things, "List things."),)', "tuple"),
        ('surface = endpoint.surface("POST", f"{ROOT}/things", add_thing)', "endpoint.surface"),
        ('@app.get("/v1/things")\nasync def list_things(): ...', "@app.get"),
        ('from starlette.routing import Route as Row\nroute = Row("/v1/things", list_things)', "Row"),
        ("surface = Surface(route, app)", "Surface"),
    ],
)
def test_a_second_way_of_declaring_routes_is_counted(module: str, way: str) -> None:
    assert list(route_ways(ast.parse(module))) == [way]
