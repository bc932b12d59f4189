"""Users, memories and searches, each as the API reference promises."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.asking import CHAT, add, said, texts

import elytron
from elytron_adapter.access_keys import AnyAuthenticator, Principal
from elytron_core.errors import (
    InvalidInput,
    NotFound,
    PermissionRefused,
    TurnConflict,
    Unauthorized,
)
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.scope import Scope
from elytron_gateway import wire
from elytron_gateway.messages import MessageUpload
from elytron_gateway.service import MemoryGateway
from elytron_gateway.users import UserKeys, is_genuine

pytestmark = pytest.mark.anyio


def found_in(who: dict[str, str], session: str) -> wire.GatewaySearchRequest:
    chat = {"scope": ["current_chat"], "conversation_id": session.removeprefix("chat:")}
    return wire.GatewaySearchRequest.model_validate({**who, "query": "likes coffee", **chat})


class TestUsers:
    async def test_the_same_user_gets_the_same_key_and_another_another(self, gateway: MemoryGateway) -> None:
        first = await gateway.create_user(wire.UserRequest(user_id="u_1"))
        again = await gateway.create_user(wire.UserRequest(user_id="u_1"))
        other = await gateway.create_user(wire.UserRequest(user_id="u_2"))
        assert first == again
        assert first.user_key.startswith("uk_")
        assert other.user_key != first.user_key

    async def test_no_key_is_in_the_store(self, gateway: MemoryGateway, memory: elytron.MemoryRuntime) -> None:
        made = await gateway.create_user(wire.UserRequest(user_id="u_1"))
        store = memory.context.store
        documents = [
            document.body
            for space in await store.spaces(limit=100)
            for collection in ("gateway_users", "space")
            for document in await store.scan(space, collection, limit=100)
        ]
        assert documents
        assert all(made.user_key.encode() not in body for body in documents)

    @pytest.mark.parametrize(
        "user_id", ["", "a/b", "../x", ".x", "elytron:system", "elytron.keyring", "Elytron.x", "a b", "a\n", "x" * 129]
    )
    async def test_paths_and_system_space_names_are_invalid_user_ids(
        self, gateway: MemoryGateway, user_id: str
    ) -> None:
        with pytest.raises(InvalidInput):
            await gateway.create_user(wire.UserRequest(user_id=user_id))

    async def test_a_wrong_key_an_unknown_user_and_no_key_are_refused_identically(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        told: set[str] = set()
        for user_id, user_key in (("ada", "uk_x"), ("nobody", ada["user_key"]), ("ada", ""), ("", ""), ("\x16", "x")):
            with pytest.raises(Unauthorized) as refused:
                await gateway.search(wire.GatewaySearchRequest(query="x", user_id=user_id, user_key=user_key))
            told.add(refused.value.message)
        assert len(told) == 1

    async def test_an_authenticated_user_needs_no_further_key_but_others_do(
        self, gateway: MemoryGateway, ada: dict[str, str], bob: dict[str, str]
    ) -> None:
        served = gateway.of(await gateway.users.authenticate(ada["user_id"], ada["user_key"]))
        assert (await served.edits(wire.PlacedRequest(user_id="ada"))).edits == ()
        with pytest.raises(Unauthorized):
            await served.edits(wire.PlacedRequest(user_id="bob"))
        assert (await served.edits(wire.PlacedRequest(**bob))).edits == ()
        with pytest.raises(Unauthorized):
            await gateway.edits(wire.PlacedRequest(user_id="ada"))

    async def test_rotating_a_key_ends_the_old_one_and_keeps_the_memory(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "The boiler code is on the fridge."))
        key = await gateway.users.rotate("ada")
        with pytest.raises(Unauthorized):
            await texts(gateway, ada, "boiler")
        assert await texts(gateway, {**ada, "user_key": key}, "boiler code", scope=["all_user_memory"])

    async def test_only_a_users_valid_key_opens_their_space(self, gateway: MemoryGateway) -> None:
        keys = UserKeys(gateway.users)
        key = (await gateway.create_user(wire.UserRequest(user_id="ada"))).user_key
        assert await keys.authenticate(f"Bearer {key}") == Principal("gateway:ada", PrincipalKind.USER, SpaceId("ada"))
        renewed = await gateway.users.rotate("ada")
        assert (await keys.authenticate(f"Bearer {renewed}")).space == "ada"
        for ended in (f"Bearer {key}", "Bearer uk_", f"Basic {renewed}", None):
            with pytest.raises(Unauthorized):
                await AnyAuthenticator(keys).authenticate(ended)
        await gateway.users.revoke("ada")
        with pytest.raises(Unauthorized):
            await keys.authenticate(f"Bearer {renewed}")

    async def test_a_revoked_user_is_refused_until_recreated_with_another_key(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.users.revoke("ada")
        with pytest.raises(Unauthorized):
            await texts(gateway, ada, "boiler")
        made = await gateway.create_user(wire.UserRequest(user_id="ada"))
        assert made.user_key != ada["user_key"]
        assert await texts(gateway, made.model_dump(), "boiler") == []

    async def test_an_erased_user_leaves_a_signed_report_and_nothing_else(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
    ) -> None:
        await gateway.add(add(ada, "The boiler code is on the fridge."))
        await gateway.add(add(ada, "Another app.", app_id="notes"))
        signed = await gateway.erase_user("ada")
        assert set(signed.report.removed) == {"ada", "ada/notes/default"}
        assert is_genuine(signed, signed.public_key)
        forged = signed.model_copy(update={"report": signed.report.model_copy(update={"user_id": "bob"})})
        assert not is_genuine(forged, signed.public_key)
        assert not is_genuine(signed, "00")
        assert list(await memory.context.store.spaces(limit=10)) == ["elytron:system"]
        with pytest.raises(NotFound):
            await gateway.usage("ada")

    async def test_exporting_or_erasing_one_space_of_a_user_names_the_others(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime, tmp_path: Path
    ) -> None:
        await gateway.add(add(ada, "The boiler code is on the fridge."))
        await gateway.add(add(ada, "Another app.", app_id="notes"))
        user = Scope(space=SpaceId("ada"))
        assert (await gateway.usage("ada")).space_names == ("ada", "ada/notes/default")
        path = str(tmp_path / "ada.elytron")
        exported = await memory.export(elytron.MemorySpaceExportRequest(scope=user, path=path))
        erasure = elytron.MemoryEraseRequest(scope=user, whole_space="ada", dry_run=True)
        previewed = await memory.erase(erasure)
        erased = await memory.erase(erasure.model_copy(update={"dry_run": False}))
        assert {report.other_spaces for report in (exported, previewed, erased)} == {("ada/notes/default",)}
        app = Scope(space=SpaceId("ada/notes/default"))
        assert (await memory.erase(elytron.MemoryEraseRequest(scope=app, whole_space=app.space))).other_spaces == ()


class TestMemories:
    async def test_added_messages_are_found_immediately_in_their_chat(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        answer = await gateway.add(add(ada, "The boiler code is on the fridge.", "Trains leave at nine."))
        assert (answer.message_count, answer.status) == (2, "accumulated")
        found = await gateway.search(
            wire.GatewaySearchRequest.model_validate({**ada, "query": "boiler code", "conversation_id": "c_456"})
        )
        (best, *_) = found.results
        assert (best.text, best.session_id, best.source_scope) == (
            "The boiler code is on the fridge.",
            CHAT,
            "current_chat",
        )
        assert best.raw["text"] == best.text

    async def test_a_search_covers_one_chat_or_all_memory(self, gateway: MemoryGateway, ada: dict[str, str]) -> None:
        await gateway.add(add(ada, "The boiler code is on the fridge."))
        await gateway.add(add(ada, "The boiler man comes on Monday.", session="chat:other"))
        one = await texts(gateway, ada, "boiler", scope=["current_chat"], conversation_id="c_456")
        every = await texts(gateway, ada, "boiler", scope=["all_user_memory"])
        assert one == ["The boiler code is on the fridge."]
        assert sorted(every) == ["The boiler code is on the fridge.", "The boiler man comes on Monday."]

    async def test_another_user_and_another_app_find_nothing(
        self, gateway: MemoryGateway, ada: dict[str, str], bob: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "The boiler code is on the fridge."))
        every = ["current_chat", "resources", "all_user_memory"]
        assert await texts(gateway, bob, "boiler code", scope=every, conversation_id="c_456") == []
        for place in ({"app_id": "other"}, {"project_id": "other"}):
            assert await texts(gateway, ada, "boiler code", scope=every, conversation_id="c_456", **place) == []

    async def test_a_chat_of_the_same_name_is_each_users_own(
        self, gateway: MemoryGateway, ada: dict[str, str], bob: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "Ada likes tea."))
        await gateway.add(add(bob, "Bob likes coffee."))
        mine = {"scope": ["current_chat"], "conversation_id": "c_456"}
        assert await texts(gateway, ada, "likes", **mine) == ["Ada likes tea."]
        assert await texts(gateway, bob, "likes", **mine) == ["Bob likes coffee."]

    @pytest.mark.parametrize("session", ["resource:bob:r_" + "0" * 32, "memory_edit:bob"])
    async def test_a_session_of_another_user_is_refused(
        self, gateway: MemoryGateway, ada: dict[str, str], session: str
    ) -> None:
        edit = {**ada, "memory_id": "x", "session_id": session}
        with pytest.raises(PermissionRefused):
            await gateway.add(add(ada, "hello", session=session))
        with pytest.raises(PermissionRefused):
            await gateway.flush(wire.FlushRequest(**ada, session_id=session))
        with pytest.raises(PermissionRefused):
            await gateway.override(wire.OverrideRequest(**edit, text="x"))
        with pytest.raises(PermissionRefused):
            await gateway.delete(wire.DeleteRequest.model_validate(edit))

    async def test_a_chat_the_user_never_used_is_refused_identically_whether_it_exists_or_not(
        self, gateway: MemoryGateway, ada: dict[str, str], bob: dict[str, str]
    ) -> None:
        await gateway.add(add(bob, "Bob likes coffee.", session="chat:bobs"))
        (his,) = (await gateway.search(found_in(bob, "chat:bobs"))).results
        told: set[str] = set()
        for session in ("chat:bobs", "chat:nobodys"):
            edit = {**ada, "memory_id": his.id, "session_id": session}
            for call in (
                gateway.flush(wire.FlushRequest(**ada, session_id=session)),
                gateway.override(wire.OverrideRequest(**edit, text="x")),
                gateway.delete(wire.DeleteRequest.model_validate(edit)),
                gateway.delete(wire.DeleteRequest(**edit, purge=True)),
                gateway.undo(wire.EditRequest(**edit)),
            ):
                with pytest.raises(PermissionRefused) as refused:
                    await call
                told.add(refused.value.message)
            assert (await gateway.search(found_in(ada, session))).results == ()
        assert told == {"this session is not owned by the user"}
        assert (await gateway.search(found_in(bob, "chat:bobs"))).results == (his,)

    @pytest.mark.parametrize("session", ["talk:c", "chat:", "resource:ada:x", "memory_edit:", "memory_edit:a/b", "c_4"])
    async def test_a_malformed_session_id_is_rejected(
        self, gateway: MemoryGateway, ada: dict[str, str], session: str
    ) -> None:
        with pytest.raises(InvalidInput):
            await gateway.add(add(ada, "hello", session=session))

    async def test_a_flush_finds_something_new_once(self, gateway: MemoryGateway, ada: dict[str, str]) -> None:
        flush = wire.FlushRequest(**ada, session_id=CHAT)
        await gateway.add(add(ada, "Hello."))
        assert [(await gateway.flush(flush)).status for _ in range(2)] == ["extracted", "no_extraction"]

    async def test_concurrent_flushes_never_count_facts_that_were_not_extracted(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        for number in range(4):
            session = f"chat:c_{number}"
            await gateway.add(add(ada, f"I live in harbour town {number}.", session=session))
            flush = wire.FlushRequest(**ada, session_id=session)
            answers = await asyncio.gather(*(gateway.flush(flush) for _ in range(8)))
            assert all(answer.status == "extracted" or answer.memories == 0 for answer in answers)
            assert any(answer.status == "extracted" for answer in answers)

    async def test_a_flush_extracts_and_counts_facts_about_the_user(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "I'm allergic to hazelnuts."))
        flushed = await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))
        assert (flushed.status, flushed.memories) == ("extracted", 1)
        found = await texts(gateway, ada, "allergic hazelnuts", scope=["all_user_memory"])
        assert "ada is allergic to hazelnuts" in found

    async def test_messages_are_added_once_per_key(self, gateway: MemoryGateway, ada: dict[str, str]) -> None:
        for _ in range(2):
            await gateway.add(add(ada, "Only once.", "And this."), idempotency_key="k")
        assert len(await texts(gateway, ada, "only once and this", scope=["all_user_memory"])) == 2
        with pytest.raises(TurnConflict):
            await gateway.add(add(ada, "Something else."), idempotency_key="k")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"role": "system"},
            {"timestamp": 0},
            {"content": []},
            {"content": [{"type": "text"}]},
            {"content": [{"type": "image", "base64": "aGk="}]},
            {"content": [{"type": "image", "base64": "aGk=", "uri": "https://x", "ext": "png"}]},
            {"tool_calls": [{"id": "1"}]},
            {"sender_id": ""},
            {"surprise": 1},
        ],
    )
    async def test_an_invalid_message_is_rejected(self, ada: dict[str, str], wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="messages"):
            wire.GatewayAddRequest.model_validate({**ada, "session_id": CHAT, "messages": [said("x") | wrong]})

    async def test_attached_files_are_stored_and_their_readable_text_found(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        page = base64.b64encode(b"<h1>Terms</h1><p>Payment is due in thirty days.</p>").decode()
        content = [
            {"type": "text", "text": "Keep these."},
            {"type": "html", "base64": page, "ext": "html", "name": "terms.html"},
            {"type": "image", "upload_id": "image_1", "name": "harbour.png", "ext": "png"},
        ]
        request = wire.GatewayAddRequest.model_validate(
            {**ada, "session_id": CHAT, "messages": [said("") | {"content": content}]}
        )
        upload = MessageUpload("image.png", "image/png", b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
        answer = await gateway.add(request, uploads={"image_1": upload})
        assert [(one.type, one.upload_id, one.name, one.size) for one in answer.attachments] == [
            ("html", None, "terms.html", 51),
            ("image", "image_1", "harbour.png", 48),
        ]
        assert await texts(gateway, ada, "when is payment due?", scope=["all_user_memory"])
        assert await texts(gateway, ada, "harbour.png", scope=["all_user_memory"])

    async def test_a_file_that_nobody_names_or_sends_is_refused(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        upload = MessageUpload("image.png", "image/png", b"x")
        with pytest.raises(InvalidInput, match="no content item refers to"):
            await gateway.add(add(ada, "Hello."), uploads={"image_1": upload})
        missing = said("") | {"content": [{"type": "image", "upload_id": "image_1"}]}
        request = wire.GatewayAddRequest.model_validate({**ada, "session_id": CHAT, "messages": [missing]})
        with pytest.raises(InvalidInput, match="does not name a file"):
            await gateway.add(request)

    @pytest.mark.parametrize(
        ("item", "problem"),
        [
            ({"type": "image", "base64": "###", "ext": "png"}, "is not base64"),
            ({"type": "pdf", "uri": "file:///etc/passwd"}, "file: address"),
        ],
    )
    async def test_an_unreadable_item_is_rejected(
        self, gateway: MemoryGateway, ada: dict[str, str], item: dict[str, str], problem: str
    ) -> None:
        message = said("") | {"content": [item]}
        request = wire.GatewayAddRequest.model_validate({**ada, "session_id": CHAT, "messages": [message]})
        with pytest.raises(InvalidInput, match=problem):
            await gateway.add(request)


async def test_health_needs_no_credentials(gateway: MemoryGateway) -> None:
    assert (await gateway.health()).status == "ok"


def test_a_search_of_the_current_chat_names_it() -> None:
    with pytest.raises(InvalidInput, match="conversation_id"):
        wire.GatewaySearchRequest(query="x", scope=("current_chat",))
