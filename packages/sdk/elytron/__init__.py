"""Elytron: governed memory for AI agents.

    import elytron

    with elytron.open("memory.db") as memory:
        memory.add("We moved to Lisbon in May.", speaker="Ada")
        print(memory.recall("when did we move?").hits[0].text)

`async with` and `await` give the same calls to asyncio programs. Names are loaded when they are first used, so that
importing the package costs little.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
