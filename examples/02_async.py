"""The same calls with `await`: many conversations write at once and share the disk's flushes."""

import asyncio
import tempfile
from pathlib import Path

import elytron

GUESTS = ["Ada", "Grace", "Edsger", "Barbara"]


async def main(store: Path) -> None:
    async with elytron.open(store) as memory:
        written = await asyncio.gather(
            *(
                memory.add(f"I will bring the number {number} dish.", speaker=guest, conversation=f"table {guest}")
                for number, guest in enumerate(GUESTS, 1)
            )
        )
        print("journal sequences:", sorted(report.sequence for report in written))

        found = await memory.recall("What does Edsger bring?", limit=1)
        print(f"{found.hits[0].speaker}: {found.hits[0].text} (score {found.hits[0].score:.2f})")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db"))
