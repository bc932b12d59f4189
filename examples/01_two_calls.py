"""Two calls: store what was said, then ask for it. No key, no service, no model."""

import tempfile
from pathlib import Path

import elytron

with tempfile.TemporaryDirectory() as folder:
    store = Path(folder) / "memory.db"

    with elytron.open(store) as memory:
        memory.add("We moved to Lisbon in May.", speaker="Ada", at="2026-05-09T18:30:00Z")
        memory.add("Our cat Turing hates the new stairs.", speaker="Ada", at="2026-05-10T08:12:00Z")

        found = memory.recall("when did we move?")
        print(f"{found.hits[0].speaker}: {found.hits[0].text}")

    # When a call has returned, its data is on disk: another process can open the store and find it.
    with elytron.open(store) as memory:
        found = memory.recall("what does the cat hate?")
        print(f"{found.hits[0].speaker}: {found.hits[0].text}")
        print("and when nothing is known:", memory.recall("favourite opera").outcome)
