"""From another memory: mem0's export comes in below what a person said, and goes out again as COGX."""

import asyncio
import json
import tempfile
from pathlib import Path

import elytron
from elytron.transfer.cogx_archive import write_cogx
from elytron_core.clock import instant

MEMORIES = [
    {"id": "m1", "memory": "Ada lives in Lisbon", "user_id": "ada", "created_at": "2026-05-01T10:00:00Z"},
    {"id": "m2", "memory": "Ada is on call", "user_id": "ada", "expiration_date": "2026-05-09"},
]


async def main(folder: Path) -> None:
    export = folder / "mem0.json"
    export.write_text(json.dumps({"results": MEMORIES}), encoding="utf-8")

    async with elytron.open(folder / "memory.db", space="ada") as memory:
        plan = await elytron.import_transcript(memory, export, dry_run=True)
        print(f"{plan.formats[0]}: {plan.messages} memories of {', '.join(plan.owners)}")

        report = await elytron.import_transcript(memory, export)
        again = await elytron.import_transcript(memory, export)
        print(f"{report.stored} stored; once more: {again.duplicates} already stored")

        for hit in (await memory.recall("Where does Ada live? Is she on call?")).hits:
            print(f"{hit.speaker}: {hit.text} (trust: {hit.trust})")

        await memory.export(folder / "space.ely")
    cogx = write_cogx(folder / "space.ely", folder / "cogx", at=instant("2026-06-01"))
    print(f"COGX: {cogx.records}, without {cogx.left_out}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
