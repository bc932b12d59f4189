"""Your own chats: import JSON Lines, OpenAI messages, and exports of ChatGPT and Claude with their times."""

import asyncio
import json
import tempfile
from pathlib import Path

import elytron
from elytron_core.clock import as_datetime

CHAT = [
    {"role": "user", "name": "Ada", "content": "Did the roofer call back?", "timestamp": "2026-02-03T09:00:00Z"},
    {"role": "user", "name": "Noor", "content": "He comes on the 12th, for 900.", "timestamp": "2026-02-03T09:04:00Z"},
    {"role": "user", "name": "Ada", "content": "屋顶终于要修好了。", "timestamp": "2026-02-03T09:05:00Z"},
]


async def main(folder: Path) -> None:
    chat = folder / "family.jsonl"
    chat.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in CHAT), encoding="utf-8")

    async with elytron.open(folder / "memory.db", space="family") as memory:
        told = await elytron.import_transcript(memory, chat)
        print(f"{told.formats[0]}: {told.stored} of {told.messages} messages stored")

        again = await elytron.import_transcript(memory, chat)
        print(f"once more: {again.stored} stored, {again.duplicates} already stored")

        for question in ("When does the roofer come?", "屋顶"):
            hit = (await memory.recall(question, limit=1)).hits[0]
            at = as_datetime(hit.at) if hit.at is not None else "some day"
            print(f"{question} -> {hit.speaker}, {at:%d %b %Y}: {hit.text}")

        ledger = await memory.replay(hit.conversation)
        print("in its order:", [message.speaker for turn in ledger.turns for message in turn.messages])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
