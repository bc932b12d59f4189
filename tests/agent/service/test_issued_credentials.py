"""Issued credentials: no message containing one is stored with it, and no copy of a store yields one."""

import logging
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.agent.service.served import AT, echo
from tests.models.fake_server import serving
from tests.transports.listener import listening

import elytron
from elytron.secrets.credential_key import derived_token
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.sessions import CookieSessions, SessionCookie
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.surfaces import agent_surfaces
from elytron_core.clock import FrozenClock
from elytron_core.errors import AlreadyExists, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, RandomIds, SpaceId
from elytron_core.planes.servers.gateway import USERS, GatewayUser
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.planes.space import SPACE, SpaceRecord
from elytron_core.policy.credentials import CREDENTIAL_FORMATS
from elytron_core.policy.redaction import is_suspect, scrub_secrets
from elytron_core.ports.store import scan_documents
from elytron_core.strict_json import keyed_tag
from elytron_gateway.service import MemoryGateway
from elytron_gateway.users import derived_user_key
from elytron_http_shell import create_app
from elytron_http_shell.telemetry.logs import LogLines

pytestmark = pytest.mark.anyio

NAMES = sorted(name for issued in CREDENTIAL_FORMATS for name in issued.credentials)
SECRET = "a secret that lies elsewhere, " * 2


@dataclass
class Issuer:
    """Issues a credential of each kind, like the product."""

    memory: elytron.MemoryRuntime
    client: httpx.AsyncClient

    async def issue(self, name: str) -> str:
        ways: dict[str, Callable[[], Awaitable[str]]] = {
            "access key": self._access_key,
            "gateway user key": self._user_key,
            "push key": lambda: self._push("key"),
            "push secret": lambda: self._push("secret"),
            "sealed summary": self._summary,
            "session cookie": self._cookie,
            "webhook secret": self._webhook_secret,
            "words of a secret": self._words,
        }
        assert sorted(ways) == NAMES, "each credential of the registry is issued here"
        return await ways[name]()

    async def _access_key(self) -> str:
        asked = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="laptop")
        return (await AccessKeys(self.memory.context).add(asked)).key

    async def _webhook_secret(self) -> str:
        asked = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="host")
        secret = (await AccessKeys(self.memory.context).add(asked)).webhook_secret
        assert secret is not None
        return secret

    async def _user_key(self) -> str:
        return (await MemoryGateway(self.memory).users.create("ada"))[1]

    async def _push(self, part: str) -> str:
        await self._call("POST", "/v1/agent/init")
        body = {"type": "webhook", "url": "https://push.example/hook"}
        return (await self._call("POST", "/v1/agent/push", body))[part]

    async def _summary(self) -> str:
        first = await self._call("POST", "/v1/responses", {"model": "scripted", "input": "My dog is called Basalt"})
        body = {"model": "scripted", "previous_response_id": first["id"]}
        return (await self._call("POST", "/v1/responses/compact", body))["output"][0]["encrypted_content"]

    async def _cookie(self) -> str:
        return await CookieSessions(self.memory.context, SessionCookie("c", "/", 60, 9, 9)).open("ada", "Bearer x")

    async def _words(self) -> str:
        return self.memory.secrets.fresh_words().get_secret_value()

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {await self._access_key()}"}
        answer = await self.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def issuing(store: str, secret: str | None) -> AsyncGenerator[Issuer]:
    async with (
        serving() as model,
        elytron.open(
            store, space="ada", credential_secret=secret, clock=FrozenClock(AT, step_ms=1), ids=RandomIds(FrozenClock())
        ) as memory,
    ):
        model.reply = echo
        app = create_app(memory, further=(agent_surfaces(ServiceSettings(models=(f"chat:scripted@{model.url}/v1",))),))
        async with listening(app) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
            yield Issuer(memory, client)


@pytest.mark.parametrize("name", NAMES)
async def test_issued_credentials_in_a_message_are_never_stored_shown_or_logged(name: str, tmp_path: Path) -> None:
    async with issuing(str(tmp_path / "m.db"), SECRET) as issuer:
        credential = await issuer.issue(name)
        report = await issuer.memory.add(f"Zebra note: it is {credential} from today.")
        assert report.changed
        hits = (await issuer.memory.recall("zebra note")).hits
        assert any("[redacted:" in hit.text for hit in hits)
        assert all(credential not in hit.text for hit in hits)
        assert all(credential not in item.text for item in (await issuer.memory.list()).items)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert credential.encode() not in stored
    line = LogLines(_line_of).format(
        logging.LogRecord("elytron", logging.INFO, __file__, 1, "call of %s failed", (credential,), None)
    )
    assert credential not in line
    assert is_suspect(credential)
    assert scrub_secrets(scrub_secrets(credential).text).counts == {}


def _line_of(_logger: object, _level: str, event: dict[str, object]) -> str:
    return repr(event)


async def derivations(memory: elytron.MemoryRuntime) -> set[str]:
    """Return what the product's own functions derive from everything in a plain store."""
    store = memory.context.store
    records = {
        space: SpaceRecord.from_bytes(document.body)
        for space in await store.spaces(limit=100)
        async for document in scan_documents(store, space, SPACE)
    }
    keys = [key.id for key in (await AccessKeys(memory.context).list()).items]
    users = [GatewayUser.from_bytes(one.body) async for one in scan_documents(store, SYSTEM_SPACE, USERS)]
    pushes: list[str] = []
    for space in records:
        async for document in scan_documents(store, space, "runtime_records"):
            pushes += [part for part in document.body.decode().split('"') if len(part) == 36]
    made: set[str] = set()
    for record in records.values():
        secret = bytes.fromhex(record.secret)
        made |= {derived_user_key(secret, user) for user in users}
        made |= {derived_token(secret, "webhook secret", key, "0") for key in keys}
        made |= {keyed_tag(secret, "webhook secret", key, "0", size=64) for key in keys}
        made |= {derived_token(secret, "push", push, purpose) for push in pushes for purpose in ("seal", "sign")}
    return made


COMPUTED = ("gateway user key", "push key", "push secret", "webhook secret")
"""Derived credentials; all others are random."""


async def test_no_copy_of_a_plain_store_yields_a_credential(tmp_path: Path) -> None:
    place, copy = tmp_path / "m.db", tmp_path / "copy.db"
    async with issuing(str(place), SECRET) as issuer:
        issued = {name: await issuer.issue(name) for name in NAMES}
    shutil.copy(place, copy)
    data = copy.read_bytes()
    assert [name for name, credential in issued.items() if credential.encode() in data] == []
    async with elytron.open(str(copy), space=None) as memory:
        made = await derivations(memory)
        assert len(made) > len(COMPUTED)
        assert made.isdisjoint(issued.values())
        with pytest.raises(AlreadyExists, match="ELYTRON_GATEWAY_SECRET"):
            await MemoryGateway(memory).users.create("ada")
    async with elytron.open(str(copy), space=None, credential_secret=SECRET) as memory:
        assert (await MemoryGateway(memory).users.create("ada"))[1] == issued["gateway user key"]


async def test_a_plain_store_without_an_external_secret_issues_no_derived_credentials(tmp_path: Path) -> None:
    async with issuing(str(tmp_path / "m.db"), None) as issuer:
        key = await issuer.issue("access key")
        headers = {"Authorization": f"Bearer {key}"}
        await issuer.client.post("/v1/agent/init", headers=headers)
        body = {"type": "webhook", "url": "https://push.example/hook"}
        for answer in (
            await issuer.client.post("/v1/agent/push", json=body, headers=headers),
            await issuer.client.get("/v1/agent/push/key", headers=headers),
        ):
            assert (answer.status_code, "ELYTRON_GATEWAY_SECRET" in answer.text) == (422, True), answer.text
        issued = await AccessKeys(issuer.memory.context).add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="x"))
        assert issued.webhook_secret is None
        assert "ELYTRON_GATEWAY_SECRET" in issued.no_webhooks
        users = MemoryGateway(issuer.memory).users
        (user, first) = await users.create("ada")
        with pytest.raises(AlreadyExists, match="rotate"):
            await users.create("ada")
        assert await users.authenticate("ada", first) == user
        second = await users.rotate("ada")
        assert (await users.authenticate("ada", second)).user_id == "ada"
        with pytest.raises(Unauthorized):
            await users.authenticate("ada", first)
        assert first not in await derivations(issuer.memory)
        report = await MemoryGateway(issuer.memory).erase_user("ada")
        assert (report.signature, "ELYTRON_GATEWAY_SECRET" in report.unsigned) == ("", True)
