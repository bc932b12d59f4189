"""The OpenAPI document says what the routes do."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from elytron.registry import OPERATIONS, Repeat
from elytron_adapter.failures import FAILURES
from elytron_core.contracts.maintaining import PUTTING_OFF

pytestmark = pytest.mark.anyio


def refs(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType] - any JSON
                if key == "$ref":
                    yield str(inner)  # pyright: ignore[reportUnknownArgumentType]
                else:
                    yield from refs(inner)
        case list():
            for inner in value:  # pyright: ignore[reportUnknownVariableType]
                yield from refs(inner)
        case _:
            return


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    return (await client.get("/openapi.json")).json()


async def test_it_is_openapi_3_1_with_every_operation_once(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    posts = {path: item["post"]["operationId"] for path, item in document["paths"].items() if "post" in item}
    assert posts.items() >= {f"/v1/{operation.name}": operation.name for operation in OPERATIONS}.items()
    names = [method["operationId"] for item in document["paths"].values() for method in item.values()]
    assert len(names) == len(set(names))


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = set(refs(document["paths"])) | set(refs(document["components"]))
    schemas = document["components"]["schemas"]
    assert found <= {f"#/components/schemas/{name}" for name in schemas}
    assert "Problem" in schemas


async def test_every_operation_tells_of_its_request_report_and_problems(document: dict[str, Any]) -> None:
    statuses = {str(row.status) for row in FAILURES.values()} - {"405"}
    for operation in OPERATIONS:
        post = document["paths"][f"/v1/{operation.name}"]["post"]
        later = {"202"} if operation.report in PUTTING_OFF else set[str]()
        assert set(post["responses"]) == {"200"} | later | statuses
        assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(operation.request.__name__)
        takes_a_key = "Idempotency-Key" in {header["name"] for header in post["parameters"]}
        assert takes_a_key == (operation.repeat is not Repeat.HARMLESS)
