"""Schedule tools: every kind of rule, invalid rules, listing and ending, and repeated calls."""

import json
from typing import Any

import pytest
from tests.agent.service.served import called, last_words, said, served
from tests.models.fake_server import Asked, Sent

pytestmark = pytest.mark.anyio
RULES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"at": "2027-05-04T09:00"}, {"type": "one_off", "at": "2027-05-04T09:00"}),
    ({"time": "09:30"}, {"type": "daily", "time": "09:30"}),
    ({"time": "09:30", "days": ["mon", "fri"]}, {"type": "weekly", "days": ["mon", "fri"], "time": "09:30"}),
    ({"every_minutes": 90}, {"type": "interval", "seconds": 5_400}),
    ({"cron": "0 9 1 * *"}, {"type": "cron", "line": "0 9 1 * *"}),
]


def scheduling(*given: dict[str, Any]) -> Any:
    """Return an agent that creates these schedules on request, then reports the answers."""

    def reply(asked: Asked) -> Sent:
        results = [message["content"] for message in asked.body["messages"] if message["role"] == "tool"]
        if results:
            return said("\n".join(results))
        return called(*(("schedule_task", {"task": "Water the plants"} | each) for each in given))

    return reply


@pytest.mark.parametrize(("given", "rule"), RULES)
async def test_the_tool_creates_every_kind_of_rule(given: dict[str, Any], rule: dict[str, Any]) -> None:
    async with served(scheduling(given), runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init", {"timezone": "Europe/Lisbon"})
        await ada.chat("Water the plants, please, again and again.")
        (made,) = (await ada.made("GET", "/schedules"))["data"]
    assert {name: made["rule"][name] for name in rule} == rule


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"time": "09:30", "cron": "0 9 1 * *"},
        {"at": "yesterday"},
        {"at": "2020-01-01T00:00"},
        {"cron": "0 0 30 2 *"},
        {"time": "09:30", "timezone": "Lisbon"},
    ],
)
async def test_invalid_rules_are_reported_to_the_model_and_create_nothing(given: dict[str, Any]) -> None:
    async with served(scheduling(given), runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.chat("Water the plants, please.")
        left = (await ada.made("GET", "/schedules"))["data"]
    result = next(message for message in server.model.asked[-1].body["messages"] if message["role"] == "tool")
    assert (left, "Scheduled" in result["content"]) == ([], False)


async def test_the_same_call_twice_in_a_turn_is_one_schedule() -> None:
    async with served(scheduling({"every_minutes": 60}, {"every_minutes": 60}), runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.chat("Water the plants each hour.")
        found = (await ada.made("GET", "/schedules"))["data"]
    assert [(each["task"], each["created_by"]) for each in found] == [("Water the plants", "agent")]


async def test_an_unstored_turn_creates_no_schedule() -> None:
    async with served(scheduling({"every_minutes": 60}), runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        body = {"input": "Water the plants each hour.", "store": False}
        async with ada.stream("POST", "/chat", body) as events:
            async for _ in events:
                pass
        assert (await ada.made("GET", "/schedules"))["data"] == []


async def test_the_agent_lists_schedules_and_ends_listed_ones() -> None:
    def reply(asked: Asked) -> Sent:
        results = [message["content"] for message in asked.body["messages"] if message["role"] == "tool"]
        words = last_words(asked)
        if asked.body["messages"][-1]["role"] == "tool":
            return said(results[-1])
        if words == "List":
            return called(("list_schedules", {}))
        return called(("cancel_schedule", {"schedule_id": words}))

    async def answer(words: str) -> str:
        events = await ada.chat(words)
        return next(event.data["message"] for event in events if event.kind == "agent.message")

    async with served(reply, runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        none = await answer("List")
        rule = {"type": "interval", "seconds": 3_600}
        named = await ada.made("POST", "/schedules", {"task": "Water the plants.", "name": "plants", "rule": rule})
        other = await ada.made("POST", "/schedules", {"task": "Feed the cat.", "rule": rule})
        listed = await answer("List")
        ended = [await answer(each["id"]) for each in (named, other)]
        again = await answer(named["id"])
        left = (await ada.made("GET", "/schedules"))["data"]
    assert none == "There are no schedules."
    assert all(each["id"] in listed for each in (named, other))
    assert ended == ["Cancelled: plants", "Cancelled: Feed the cat."]
    assert (again.startswith("There is no schedule with this id"), left) == (True, [])
    assert "list_schedules" in json.dumps(server.model.asked[0].body["tools"])
