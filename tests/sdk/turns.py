"""Finished turns and scripted models, for tests of maintenance."""

import json
from collections.abc import Sequence
from typing import Any

from elytron.models import ScriptedModel
from elytron.runtime import MemoryRuntime
from elytron_core.contracts.maintenance.maintenance import MemoryFinalizeTurnReport, MemoryFinalizeTurnRequest
from elytron_core.contracts.transcript import CanonicalTurnDelta
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_core.ports.models import PromptMessage


def request(name: str, said: str, answer: str | None = "I see.", /, **more: Any) -> MemoryFinalizeTurnRequest:
    """Return a finished turn; `more` are fields of the delta, or of the request."""
    fields = {key: more.pop(key) for key in tuple(more) if key in MemoryFinalizeTurnRequest.model_fields}
    delta = CanonicalTurnDelta(
        turn_id=name,
        input_messages=(Message(text=said),),
        assistant_message=Message(role=EvidenceRole.ASSISTANT, text=answer) if answer is not None else None,
        **more,
    )
    return MemoryFinalizeTurnRequest(delta=delta, **fields)


async def finish(
    memory: MemoryRuntime, name: str, said: str, answer: str | None = "I see.", /, **more: Any
) -> MemoryFinalizeTurnReport:
    """Finalize one turn."""
    return await memory.finalize_turn_and_maintain(request(name, said, answer, **more))


def item(content: str, quote: str, /, **more: str) -> dict[str, str]:
    """Return an item as a model would extract it."""
    return {
        "plane": "factual",
        "op": "upsert",
        "kind": "profile",
        "topic": "residence",
        "content": content,
        "confidence": "high",
        "quote": quote,
        **more,
    }


def items(*found: dict[str, str]) -> str:
    """Return a model's answer to an extraction."""
    return json.dumps({"items": found})


def answering(*answers: tuple[str, str | Exception], otherwise: str = '{"items":[]}') -> ScriptedModel:
    """Return a model that answers a prompt containing a pair's first word with the second."""

    def script(prompt: Sequence[PromptMessage]) -> str | Exception:
        data = prompt[1].text.rpartition("## ")[2]
        return next((answer for word, answer in answers if word in data), otherwise)

    return ScriptedModel(script)
