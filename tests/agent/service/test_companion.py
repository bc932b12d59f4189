"""The companion: one per user, created once, described, changed, erased completely."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.agent.service.served import served

from elytron_agent.runs.source import WELCOME
from elytron_agent.service.companion import AgentPart

pytestmark = pytest.mark.anyio


async def test_fifty_concurrent_inits_create_one_agent(tmp_path: Path) -> None:
    async with served(store=f"sqlite:///{tmp_path}/m.db") as server:
        ada = await server.user("ada")
        made = await asyncio.gather(*(ada.made("POST", "/init", {"timezone": "Asia/Tokyo"}) for _ in range(50)))
    assert len({answer["id"] for answer in made}) == 1
    assert all(answer == made[0] for answer in made)


async def test_init_returns_the_welcome_and_a_second_call_changes_nothing() -> None:
    async with served() as server:
        ada = await server.user("ada")
        first = await ada.made("POST", "/init", {"timezone": "Europe/Lisbon", "locale": "pt-PT"})
        again = await ada.made("POST", "/init", {"timezone": "Asia/Tokyo"})
    assert first == again
    assert (first["welcome"], first["is_first_time"]) == (list(WELCOME), True)
    assert first["preferences"] == {"timezone": "Europe/Lisbon", "locale": "pt-PT"}


async def test_the_first_turn_is_guided_and_ends_the_welcome() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.chat("Hello")
        shown = await ada.made("GET", "")
    assert "You do not know this person yet" in str(server.model.asked[0].body["messages"])
    assert (shown["welcome"], shown["is_first_time"], shown["model_health"]) == ([], True, "answers")


@pytest.mark.parametrize(
    ("body", "field", "near"),
    [
        ({"timezone": "Lisbon"}, "timezone", "Europe/Lisbon"),
        ({"timezone": "../../etc/passwd"}, "timezone", "nearest are"),
        ({"locale": "xx-YY"}, "locale", "nearest are"),
        ({"locale": "-"}, "locale", "nearest are"),
        ({"zone": "UTC"}, "request", "timezone"),
    ],
)
async def test_an_unknown_zone_or_language_is_refused_with_near_names(
    body: dict[str, Any], field: str, near: str
) -> None:
    async with served() as server:
        answer = await (await server.user("ada")).call("POST", "/init", body)
    told = answer.json()
    assert (answer.status_code, told["details"]["field"]) == (422, field)
    assert near in told["detail"]


async def test_no_agent_exists_before_init_or_after_delete() -> None:
    paths = ("", "/config", "/items", "/memory/blocks", "/subagents", "/preferences", "/conversations")
    async with served() as server:
        ada = await server.user("ada")
        before = [(await ada.call("GET", path)).status_code for path in paths]
        await ada.made("POST", "/init")
        there = [(await ada.call("GET", path)).status_code for path in paths]
        await ada.made("DELETE", "")
        after = [(await ada.call("GET", path)).status_code for path in paths]
        chat = await ada.call("POST", "/chat", {"input": "hi"})
    assert (before, there, after) == ([404] * 7, [200] * 7, [404] * 7)
    assert (chat.status_code, chat.json()["code"]) == (404, "not_found")


async def test_deletion_erases_everything_of_the_agent_and_nothing_said_elsewhere() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await server.memory.add("The boat is blue.", user_id="ada", conversation="elsewhere")
        await ada.made("POST", "/init")
        await ada.made("POST", "/memory/archival", {"content": "Ada keeps bees."})
        await ada.made("PUT", "/memory/blocks/human", {"value": "Ada, a sailor."})
        await ada.made("POST", "/subagents", {"name": "chef", "purpose": "Cook."})
        await ada.chat("The mast is oak.")
        rule = {"type": "interval", "seconds": 3_600}
        await ada.made("POST", "/schedules", {"task": "Oil the mast.", "rule": rule})
        await ada.made("POST", "/push", {"type": "webhook", "url": "https://push.example/hook"})
        planned = await ada.made("DELETE", "?dry_run=true")
        gone = await ada.made("DELETE", "")
        left = [item.text for item in (await server.memory.list(user_id="ada", include_private=True)).items]
        records = (await server.memory.search_records(("blocks",), user_id="ada")).items
    assert {**planned, "dry_run": False, "deleted": True} == gone
    assert (gone["agents"], gone["memories"]) == (2, 3)
    assert (left, records) == (["The boat is blue."], ())


async def test_settings_are_changed_individually_and_an_empty_text_means_the_default() -> None:
    async with served(prompt="Be brief.") as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        usual = await ada.made("GET", "/config")
        await ada.made("PUT", "/config", {"system_prompt": "Speak like a sailor.", "max_context_tokens": 5_000})
        own = await ada.made("PUT", "/config", {"tools": False})
        await ada.chat("Hello")
        back = await ada.made("PUT", "/config", {"system_prompt": "", "optimised_prompt": False})
        wrong = await ada.call("PUT", "/config", {"model": "openai:gpt-9"})
    assert (usual["system_prompt"], usual["tools"], usual["models"]) == ("Be brief.", True, ["chat:scripted"])
    assert (own["system_prompt"], own["max_context_tokens"], own["tools"]) == ("Speak like a sailor.", 5_000, False)
    asked = server.model.asked[0].body
    assert "Speak like a sailor." in str(asked["messages"][0])
    assert "tools" not in asked
    assert "system_prompt" not in back
    assert (wrong.status_code, wrong.json()["details"]["field"]) == (422, "model")
    assert "127.0.0.1" not in wrong.text


async def test_an_agent_switched_off_by_user_or_operator_answers_agent_disabled() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.made("PUT", "/config", {"enabled": False})
        calls = [("POST", "/chat", {"input": "hi"}), ("GET", "/items", None), ("GET", "/memory/blocks", None)]
        off = [(await ada.call(method, path, body)).json()["code"] for method, path, body in calls]
        shown = await ada.made("GET", "/config")
        await ada.made("PUT", "/config", {"enabled": True})
        again = await ada.chat("hi")
    assert (off, shown["enabled"], again[-1].kind) == (["agent_disabled"] * 3, False, "agent.done")
    async with served(off=frozenset({AgentPart.ALL})) as server:
        ada = await server.user("ada")
        answers = [await ada.call("POST", "/init"), await ada.call("POST", "/chat", {"input": "hi"})]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "agent_disabled")] * 2


async def test_changed_preferences_apply_to_the_next_turn() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init", {"timezone": "UTC", "locale": "en"})
        made = await ada.made("PATCH", "/preferences", {"timezone": "Asia/Tokyo"})
        await ada.chat("What time is it?")
        read = await ada.made("GET", "/preferences")
    assert made == read == {"timezone": "Asia/Tokyo", "locale": "en"}
    assert "Asia/Tokyo" in str(server.model.asked[0].body["messages"])


async def test_a_subagent_has_a_thread_of_its_own_and_the_lists_filter() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init", {"timezone": "Asia/Tokyo"})
        chef = await ada.made("POST", "/subagents", {"name": "chef", "purpose": "Plan meals."})
        await ada.chat("I am the captain.")
        events = await ada.chat("Soup, please.", f"/subagents/{chef['id']}/chat")
        items = await ada.made("GET", f"/subagents/{chef['id']}/items")
        main = await ada.items()
        by_user = await ada.made("GET", "/subagents?created_by=user")
        by_agent = await ada.made("GET", "/subagents?created_by=agent")
        threads = await ada.made("GET", "/conversations")
        gone = await ada.made("DELETE", f"/subagents/{chef['id']}")
        after = await ada.call("GET", f"/subagents/{chef['id']}")
        left = await ada.items()
    assert events[-1].data["agent_id"] == chef["id"]
    asked = str(server.model.asked[-1].body["messages"])
    assert "Plan meals." in asked
    assert "Asia/Tokyo" in asked
    assert [item["text"] for item in items["data"]] == ["You said: Soup, please.", "Soup, please."]
    assert len(main["data"]) == 2
    assert [each["id"] for each in by_user["data"]] == [chef["id"]]
    assert by_agent["data"] == []
    assert [each.get("name") for each in threads["data"]] == [None, "chef"]
    assert (gone["agents"], gone["memories"], after.status_code) == (1, 2, 404)
    assert left == main
