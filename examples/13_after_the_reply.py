"""After each reply: the turn is stored, explicit statements become facts, and model work waits in a queue."""

import asyncio
import json

import elytron
from elytron import EvidenceRole
from elytron.models import ScriptedModel

FACTS = elytron.RecallFilters(planes=(elytron.RecallPlane.LONG_TERM,))


def turn(name: str, said: str, answer: str) -> elytron.MemoryFinalizeTurnRequest:
    delta = elytron.CanonicalTurnDelta(
        turn_id=name,
        input_messages=(elytron.Message(text=said),),
        assistant_message=elytron.Message(role=EvidenceRole.ASSISTANT, text=answer),
    )
    return elytron.MemoryFinalizeTurnRequest(delta=delta)


async def main() -> None:
    # Without a model, rules extract what a user states explicitly.
    async with elytron.open("memory:", space="ada") as memory:
        report = await memory.finalize_turn_and_maintain(turn("t1", "I'm allergic to hazelnuts.", "Noted."))
        print([decision.outcome.value for decision in report.decisions])
        print((await memory.recall("allergic", filters=FACTS)).hits[0].text)

    # With one, the call returns at once, and a durable job calls the model. Any model behind the port will do;
    # elytron_models.TextModel calls a server; this one only returns a fixed answer.
    line = {
        "plane": "factual", "op": "upsert", "kind": "profile", "topic": "residence", "confidence": "high",
        "content": "Ada lives on a barge in Utrecht.", "quote": "home is a barge in Utrecht",
    }  # fmt: skip
    model = ScriptedModel([json.dumps({"items": [line]})])
    async with elytron.open("memory:", space="ada", language_model=model) as memory:
        await memory.finalize_turn_and_maintain(turn("t1", "These days home is a barge in Utrecht.", "How damp!"))
        print((await memory.list_jobs()).counts)
        done = await memory.run_jobs()
        print(done.jobs[0].state.value, done.spent.calls, "call")
        print((await memory.recall("Utrecht barge", filters=FACTS)).hits[0].text)


asyncio.run(main())
