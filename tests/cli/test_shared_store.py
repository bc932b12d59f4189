"""A store shared by a server, opened by the command line with a key."""

from collections.abc import Iterator

import pytest
from tests.cli.conftest import CommandLine
from tests.transports.live import Live

from elytron_adapter.access_keys import Principal
from elytron_adapter.http.store import store_surfaces
from elytron_core.errors import Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind

KEY = "ada-key-of-the-shared-store"


class OneKey:
    """Knows one user by key."""

    async def authenticate(self, authorization: str | None, /) -> Principal:
        if authorization != f"Bearer {KEY}":
            raise Unauthorized
        return Principal("ada's", PrincipalKind.USER, SpaceId("ada"))


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    with Live(further=(store_surfaces,), authenticator=OneKey()) as live:
        yield live.url.replace("http://", "gateway+http://")


def test_the_key_from_the_environment_is_used_and_not_shown(
    elytron: CommandLine, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--store", shared, "--space", "ada")
    assert elytron.error("list", *place, expect=5)["key"] == "unauthorized"
    monkeypatch.setenv("ELYTRON_API_KEY", KEY)
    elytron("add", "The ferry leaves at six.", *place)
    (hit,) = elytron.json("recall", "when does the ferry leave?", *place)["hits"]
    assert hit["text"] == "The ferry leaves at six."
    assert KEY not in elytron("config", "show", *place).stdout


@pytest.mark.parametrize(
    "command",
    [("proxy",), ("proxy", "--development"), ("serve",), ("serve", "--development"), ("access", "list")],
    ids=" ".join,
)
def test_the_server_of_a_shared_store_owns_its_access_keys(
    elytron: CommandLine, shared: str, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ELYTRON_API_KEY", KEY)
    told = elytron(*command, "--store", shared, "--space", "ada", expect=2).stderr
    assert "which owns its access keys" in told
