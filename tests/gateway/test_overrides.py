"""Overrides and tombstones: what overrides a memory, where it is found, and how it is removed."""

import pytest
from benchmarks.rigs.live_words import live_bytes
from tests.gateway.asking import CHAT, add, texts

import elytron
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import AlreadyExists, NotFound
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope
from elytron_gateway import wire
from elytron_gateway.service import MemoryGateway

pytestmark = pytest.mark.anyio


class TestEdits:
    async def _one(self, gateway: MemoryGateway, who: dict[str, str], query: str = "boiler code") -> wire.SearchResult:
        answer = await gateway.search(
            wire.GatewaySearchRequest.model_validate({**who, "query": query, "scope": ["all_user_memory"]})
        )
        return answer.results[0]

    async def test_an_override_is_shown_and_found_by_both_texts_until_it_is_undone(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        old = await self._one(gateway, ada)
        edit = {**ada, "memory_id": old.id, "session_id": CHAT}
        await gateway.override(wire.OverrideRequest(**edit, text="The heater's secret is vq9911x."))
        for scope in (["all_user_memory"], ["current_chat"]):
            answer = await gateway.search(
                wire.GatewaySearchRequest.model_validate(
                    {**ada, "query": "heater secret", "scope": scope, "conversation_id": "c_456"}
                )
            )
            assert [(one.id, one.text, one.session_id, one.overridden) for one in answer.results] == [
                (old.id, "The heater's secret is vq9911x.", CHAT, True)
            ]
        beneath = await self._one(gateway, ada)
        assert (beneath.id, beneath.text, beneath.overridden) == (old.id, "The heater's secret is vq9911x.", True)
        assert beneath.raw["text"] == "The boiler code is vq4417x."
        assert [one.kind for one in (await gateway.edits(wire.PlacedRequest(**ada))).edits] == ["override"]
        await gateway.undo(wire.EditRequest(**edit))
        assert (await self._one(gateway, ada)).text == "The boiler code is vq4417x."
        assert await texts(gateway, ada, "heater secret", scope=["all_user_memory"]) == ["The boiler code is vq4417x."]

    async def test_chats_whose_names_differ_in_case_have_their_own_overrides(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        await gateway.add(add(ada, "Of the boiler nothing is known.", session="chat:C_456"))
        old = await self._one(gateway, ada, "boiler code vq4417x")
        await gateway.override(wire.OverrideRequest(**ada, memory_id=old.id, session_id=CHAT, text="It is vq9911x."))
        for name, found in (("c_456", ["It is vq9911x."]), ("C_456", ["Of the boiler nothing is known."])):
            assert await texts(gateway, ada, "boiler", scope=["current_chat"], conversation_id=name) == found

    async def test_an_overridden_text_appears_nowhere(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        await gateway.add(add(ada, "Another chat altogether.", session="chat:other"))
        old = await self._one(gateway, ada)
        await gateway.override(wire.OverrideRequest(**ada, memory_id=old.id, session_id=CHAT, text="It is vq9911x."))
        recalled = (await memory.recall("boiler code vq4417x", user_id="ada")).hits
        assert {hit.text for hit in recalled} == {"It is vq9911x.", "Another chat altogether."}
        here, there = ({"scope": ["current_chat"], "conversation_id": name} for name in ("c_456", "other"))
        assert await texts(gateway, ada, "boiler code", **here) == ["It is vq9911x."]
        assert await texts(gateway, ada, "boiler code", **there) == ["Another chat altogether."]
        assert await texts(gateway, ada, "boiler code", scope=["resources"]) == []

    async def test_a_memory_erased_under_an_override_is_no_longer_searched(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        old = await self._one(gateway, ada)
        await gateway.override(wire.OverrideRequest(**ada, memory_id=old.id, session_id=CHAT, text="It is vq9911x."))
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == ["It is vq9911x."]
        assert any(b"vq4417x" in data for data in live_bytes(memory.context.folds))
        await memory.erase(MemoryEraseRequest(scope=Scope(space=SpaceId("ada")), ids=(old.id,)))
        assert not any(b"vq4417x" in data for data in live_bytes(memory.context.folds))
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == ["It is vq9911x."]

    async def test_a_second_override_replaces_the_first(self, gateway: MemoryGateway, ada: dict[str, str]) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        old = await self._one(gateway, ada)
        edit = {**ada, "memory_id": old.id, "session_id": CHAT}
        for text in ("The boiler code is 1.", "The boiler code is 2."):
            await gateway.override(wire.OverrideRequest(**edit, text=text))
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == ["The boiler code is 2."]

    async def test_a_tombstone_hides_a_memory_everywhere_until_it_is_undone(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        old = await self._one(gateway, ada)
        edit = {**ada, "memory_id": old.id, "session_id": CHAT}
        told = await gateway.delete(wire.DeleteRequest.model_validate({**edit, "reason": "User requested deletion"}))
        assert (told.kind, told.reason) == ("tombstone", "User requested deletion")
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == []
        assert (await memory.recall("boiler code", user_id="ada")).hits == ()
        await gateway.undo(wire.EditRequest(**edit))
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == ["The boiler code is vq4417x."]
        with pytest.raises(NotFound):
            await gateway.undo(wire.EditRequest(**edit))

    async def test_another_text_does_not_restore_a_hidden_memory(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        edit = {**ada, "memory_id": (await self._one(gateway, ada)).id, "session_id": CHAT}
        await gateway.delete(wire.DeleteRequest.model_validate(edit))
        with pytest.raises(AlreadyExists, match="undo the deletion"):
            await gateway.override(wire.OverrideRequest(**edit, text="The boiler code is 12."))
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == []
        await gateway.undo(wire.EditRequest(**edit))
        await gateway.override(wire.OverrideRequest(**edit, text="The boiler code is 12."))
        assert await texts(gateway, ada, "boiler code", scope=["all_user_memory"]) == ["The boiler code is 12."]

    async def test_a_belief_is_shown_in_the_users_own_session_and_edited_there(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "I'm allergic to hazelnuts."))
        await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))
        every = wire.GatewaySearchRequest.model_validate({**ada, "query": "allergic", "scope": ["all_user_memory"]})
        belief = next(one for one in (await gateway.search(every)).results if one.session_id != CHAT)
        assert (belief.session_id, belief.text) == ("memory_edit:ada", "ada is allergic to hazelnuts")
        edit = {**ada, "memory_id": belief.id}
        with pytest.raises(NotFound):
            await gateway.override(wire.OverrideRequest(**edit, session_id=CHAT, text="x"))
        await gateway.override(wire.OverrideRequest(**edit, session_id="memory_edit:ada", text="allergic to walnuts"))
        assert "allergic to walnuts" in [one.text for one in (await gateway.search(every)).results]
        by_the_old = (await gateway.search(every.model_copy(update={"query": "hazelnuts"}))).results
        assert (belief.id, "allergic to walnuts") in [(one.id, one.text) for one in by_the_old]

    async def test_a_purge_erases_the_memory_and_its_override(
        self, gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
    ) -> None:
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        old = await self._one(gateway, ada)
        edit = {**ada, "memory_id": old.id, "session_id": CHAT}
        await gateway.override(wire.OverrideRequest(**edit, text="The boiler code is vq9911x."))
        assert (await gateway.delete(wire.DeleteRequest(**edit, purge=True))).purged
        assert (await gateway.usage("ada")).messages == 0
        documents = [
            document.body
            for collection in ("turns", "gateway_edits")
            for document in await memory.context.store.scan("ada", collection, limit=100)  # type: ignore[arg-type]
        ]
        assert not any(b"vq4417x" in body or b"vq9911x" in body for body in documents)

    async def test_a_memory_of_another_session_or_none_is_not_found(
        self, gateway: MemoryGateway, ada: dict[str, str]
    ) -> None:
        await gateway.add(add(ada, "Another chat.", session="chat:other"))
        await gateway.add(add(ada, "The boiler code is vq4417x."))
        old = await self._one(gateway, ada)
        for memory_id, session in ((old.id, "chat:other"), ("0" * 24 + "." + "0" * 12, CHAT)):
            with pytest.raises(NotFound):
                await gateway.override(wire.OverrideRequest(**ada, memory_id=memory_id, session_id=session, text="x"))
