"""`elytron client`: calling a server from the command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.transports.live import Live


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live() as server:
        yield server


@pytest.fixture
def client(
    elytron: CommandLine, live: Live, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> "Client":
    monkeypatch.setenv("ELYTRON_URL", live.url)
    return Client(elytron, request.node.name)


class Client:
    """Calls `elytron client` about the test's own space."""

    def __init__(self, elytron: CommandLine, space: str) -> None:
        self._elytron = elytron
        self._space = space

    def __call__(self, *arguments: str, standard_input: bytes | None = None) -> Any:
        return self._elytron.json("client", *arguments, "--space", self._space, standard_input=standard_input)

    def error(self, *arguments: str, expect: int, standard_input: bytes | None = None) -> dict[str, Any]:
        return self._elytron.error(
            "client", *arguments, "--space", self._space, expect=expect, standard_input=standard_input
        )


def test_everyday_commands_accept_plain_words(client: Client) -> None:
    client("add", "The ferry leaves at six.", "--speaker", "Ada", "--conversation", "trip")
    (hit,) = client("recall", "when does the ferry leave?", "--limit", "1")["hits"]
    assert (hit["text"], hit["conversation"]) == ("The ferry leaves at six.", "trip")
    assert "ferry leaves" in client("project", "ferry", "--max-chars", "900")["system_memory_block"]
    client("add", "-", standard_input=b"  It was late.\n")
    assert len(client("list")["items"]) == 2


def test_a_key_makes_a_call_happen_once(client: Client) -> None:
    written = [client("add", "once", "--idempotency-key", "k")["duplicated"] for _ in range(2)]
    assert written == [False, True]
    (item,) = client("list")["items"]
    forget = ("forget", "--request", json.dumps({"ids": [item["id"]]}), "--idempotency-key", "f")
    assert client(*forget) == client(*forget)


def test_a_request_is_read_from_text_file_or_standard_input(client: Client, tmp_path: Path) -> None:
    client("add", "one")
    request = b'{"query": "one"}'
    (tmp_path / "request.json").write_bytes(request)
    reports = [
        client("recall", "--request", request.decode()),
        client("recall", "--request", "@request.json"),
        client("recall", "--request", "-", standard_input=request),
    ]
    assert [len(report["hits"]) for report in reports] == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "given", "code", "key"),
    [
        (("recall",), b"", 2, "invalid_input"),
        (("recall", "x", "--request", "{}"), b"", 2, "invalid_input"),
        (("list", "--request", "s3cret"), b"", 2, "invalid_json"),
        (("list", "--request", '{"s3cret": 1}'), b"", 2, "invalid_input"),
        (("list", "--request", "@s3cret.json"), b"", 6, "unreadable_file"),
        (("list", "--request", "@big.json"), b"", 7, "payload_too_large"),
        (("add", "-"), b"\xff", 2, "invalid_input"),
        (("add", "-"), b"x" * 4_000_001, 7, "payload_too_large"),
        (("get", "--request", '{"id": "nobody"}'), b"", 3, "not_found"),
        (("list", "--key", "s3cret with spaces"), b"", 2, "invalid_input"),
        (("list", "--url", "http://127.0.0.1:1"), b"", 9, "unreachable"),
    ],
)
def test_errors_end_with_their_exit_code(
    client: Client, tmp_path: Path, *, arguments: tuple[str, ...], given: bytes, code: int, key: str
) -> None:
    with (tmp_path / "big.json").open("wb") as big:
        big.truncate(16 * 1024 * 1024 + 1)
    error = client.error(*arguments, expect=code, standard_input=given)
    assert error["key"] == key
    assert "s3cret with" not in json.dumps(error)


def test_people_at_a_terminal_see_tables(elytron: CommandLine, client: Client) -> None:
    space = ("--space", "test_people_at_a_terminal_see_tables", "--no-json")
    assert elytron("client", "add", "The ferry leaves at six.", *space).stdout.startswith("stored  ")
    assert "The ferry leaves at six." in elytron("client", "recall", "ferry", *space).stdout
    assert "ferry" in elytron("client", "project", "ferry", *space).stdout
    assert '"items"' in elytron("client", "list", *space).stdout


def test_a_server_is_stopped_by_its_operator_on_the_machine(elytron: CommandLine) -> None:
    with Live() as live:
        told = elytron.json("server", "stop", "--url", live.url, "--reason", "update")
        assert told["reason"] == "update"
        assert live.ended()
    assert elytron.error("server", "stop", "--url", live.url, expect=9)["key"] == "unreachable"
