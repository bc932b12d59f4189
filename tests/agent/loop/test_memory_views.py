"""An agent with its own memory sees nothing that its user said elsewhere, by any tool or request."""

import json
from typing import Any

import pytest
from tests.agent.service.served import called, last_words, said, served
from tests.models.fake_server import Asked, Sent

pytestmark = pytest.mark.anyio

SECRET = "heronsnest"
VALUES: dict[str, Any] = {"string": SECRET, "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def arguments_of(tool: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for a tool by its schema, with the secret as each text."""
    properties = tool["function"]["parameters"].get("properties", {})
    required = tool["function"]["parameters"].get("required", [])
    return {name: VALUES[properties[name].get("type", "string")] for name in required}


async def test_a_subagent_with_its_own_memory_cannot_read_other_conversations() -> None:
    offered: dict[str, dict[str, Any]] = {}
    answers: list[dict[str, Any]] = []
    requests: list[Any] = []

    def reply(asked: Asked) -> Sent:
        messages = asked.body["messages"]
        if "tools" not in asked.body or "look" not in last_words(asked):
            return said("Noted.")
        requests.append(messages)
        offered.update({tool["function"]["name"]: tool for tool in asked.body["tools"]})
        answers[:] = [message for message in messages if message["role"] == "tool"]
        left = [name for name in offered if name not in {"done", "read_result"}]
        return said("Nothing.") if answers else called(*((name, arguments_of(offered[name])) for name in left))

    async with served(reply) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.chat(f"My bank pin is {SECRET}.")
        await ada.made("POST", "/memory/archival", {"content": f"The {SECRET} is archived."})
        await ada.made("PUT", "/memory/blocks/human", {"value": f"Has a {SECRET}."})
        await server.memory.add_fact("pin", f"The pin is {SECRET}.", user_id="ada")
        rule = {"type": "interval", "seconds": 3_600}
        await ada.made("POST", "/schedules", {"name": SECRET, "task": f"Say {SECRET}.", "rule": rule})
        own = await ada.made("POST", "/subagents", {"name": "spy", "purpose": "Look.", "memory": "own"})
        shared = await ada.made("POST", "/subagents", {"name": "aide", "purpose": "Look.", "memory": "shared"})
        await ada.chat("Please look.", path=f"/subagents/{own['id']}/chat")
        own_answers, own_requests = list(answers), json.dumps(requests)
        requests.clear()
        await ada.chat("Please look.", path=f"/subagents/{shared['id']}/chat")
        shared_answers = list(answers)
    assert {"conversation_search", "archival_search", "memory_append", "list_schedules"} <= offered.keys()
    assert len(own_answers) == len(offered.keys() - {"done", "read_result"})
    # What the subagent itself passed to a tool may be returned; nothing planted may.
    for planted in ("bank pin", "is archived", "Has a", "The pin is", f"Say {SECRET}"):
        assert planted not in json.dumps(own_answers), planted
        assert planted not in own_requests, planted
    assert "bank pin" in json.dumps(shared_answers)
