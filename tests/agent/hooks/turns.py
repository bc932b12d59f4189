"""Turns in a compact notation, and the content of a context."""

import json
from typing import Any

from elytron_agent import AfterTurnReport, BeforeTurnReport, TurnHooks
from elytron_agent.hooks.messages import HostMessages, items_of
from elytron_agent.hooks.window import is_policy, is_reference
from elytron_models.chat_messages import Json


def said(role: str, text: str) -> Json:
    return {"role": role, "content": text}


async def told(hooks: TurnHooks, text: HostMessages, answer: str = "I see.", **named: Any) -> AfterTurnReport:
    """Run a turn with its answer and return what was stored."""
    async with hooks.turn(text, **named) as turn:
        turn.answered(answer)
    assert turn.after is not None
    return turn.after


async def asked(hooks: TurnHooks, text: HostMessages, **named: Any) -> BeforeTurnReport:
    """Return the context of a turn that is never answered."""
    async with hooks.turn(text, **named) as turn:
        pass
    assert turn.after is None
    return turn.before


def reference(report: BeforeTurnReport) -> Json:
    """Return the data of the reference; empty if there is none."""
    found = [item for item in items_of(report.messages) if is_reference(item)]
    return json.loads(found[0].words.splitlines()[1]) if found else {}


def values(report: BeforeTurnReport) -> dict[str, str]:
    """Return the facts of the reference by key."""
    return {fact["key"]: fact["value"] for fact in reference(report).get("facts", ())}


def parts(report: BeforeTurnReport) -> list[str]:
    """Return the content of the context in order: policy, reference, or a message's text."""
    return [
        "policy" if is_policy(item) else "reference" if is_reference(item) else item.words
        for item in items_of(report.messages)
    ]
