"""A chat for many users: streamed answers, remembered facts, a correction, an export and an erasure."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import elytron
from elytron import EvidenceRole

BELIEFS = elytron.RecallFilters(planes=(elytron.RecallPlane.LONG_TERM,))


async def model(messages: Sequence[dict[str, str]]) -> AsyncIterator[str]:
    """Stand in for a model that streams its answer."""
    for word in f"I read {len(messages)} messages.".split():
        await asyncio.sleep(0)
        yield f"{word} "


async def answer(memory: elytron.MemoryRuntime, user: str, turn_id: str, text: str) -> str:
    """Answer one user, and store the messages and their facts once the answer was delivered."""
    block = (await memory.project(text, user_id=user, max_chars=1_200)).system_memory_block
    messages = [{"role": "system", "content": "You are helpful."}]
    if block:
        messages.append({"role": "user", "content": block})  # reference data, never system text
    messages.append({"role": "user", "content": text})
    streamed = "".join([piece async for piece in model(messages)])
    delta = elytron.CanonicalTurnDelta(
        turn_id=turn_id,
        input_messages=(elytron.Message(text=text),),
        assistant_message=elytron.Message(role=EvidenceRole.ASSISTANT, text=streamed),
    )
    scope = elytron.Scope(space=user)
    await memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(scope=scope, delta=delta))
    return streamed


async def main(folder: Path) -> None:
    async with elytron.open(folder / "chat.db", space=None) as memory:
        await asyncio.gather(
            answer(memory, "ada", "t1", "Hi, I'm Ada. I'm allergic to hazelnuts and I live in Porto."),
            answer(memory, "bob", "t1", "My name is Bob O'Brien and I live in Bergen."),
        )
        print("ada asks:   ", await answer(memory, "ada", "t2", "What can I have for dessert?"))

        known = (await memory.list(filters=BELIEFS, user_id="ada")).items
        print("remembered: ", [fact.text for fact in known])
        home = next(fact for fact in known if "Porto" in fact.text)
        await memory.correct(home.id, "The user lives in Braga", user_id="ada", reason="she said so")
        print("corrected:  ", (await memory.recall("where do I live?", filters=BELIEFS, user_id="ada")).hits[0].text)

        exported = await memory.export(folder / "ada.elytron", include_private=True, user_id="ada")
        print("exported:   ", dict(exported.documents))
        erased = await memory.erase(whole_space="ada", user_id="ada", reason="asked for")
        print("erased:     ", erased.changed, (await memory.recall("hazelnuts", user_id="ada")).outcome.value)
        print("bob remains:", [fact.text for fact in (await memory.list(filters=BELIEFS, user_id="bob")).items])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
