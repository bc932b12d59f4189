"""A space sealed with its user's own words: neither the store's operator nor a thief of the disk can read it.

The store has no key file. Noor's space is sealed with twelve words that only she has; Ada's space stays as it was.
"""

import asyncio
import tempfile
from pathlib import Path

import elytron
from elytron import ElytronError, MemoryRuntime

SECRET = "the boat key is under the oar"


def shows(folder: Path) -> bool:
    """Return whether the text is in any byte below `folder`."""
    return any(SECRET.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def answer_of(memory: MemoryRuntime) -> str:
    """Return the first hit for Noor's question, or why there is none."""
    try:
        return (await memory.search("where is the boat key?", user_id="noor")).hits[0].text
    except ElytronError as error:
        return error.key


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with elytron.open(home / "memory.db") as phone, elytron.open(home / "memory.db") as server:
            await phone.add(SECRET, user_id="noor")
            await phone.add("the ferry leaves at nine", user_id="ada")
            print("in the files before:", shows(home))

            words = phone.secrets.fresh_words()  # she writes them down: they are kept nowhere
            await phone.secrets.seal("noor", words=words)
            print("in the files once sealed:", shows(home))
            print("the process with the words:", await answer_of(phone))
            print("another one over the same store:", await answer_of(server))
            print("Ada's space:", (await server.search("ferry", user_id="ada")).hits[0].text)

            await server.secrets.unlock("noor", words=words, minutes=30)
            print("unlocked there too, for half an hour:", await answer_of(server))
            granted = await server.secrets.grant("noor", minutes=60)  # jobs and schedules may open it meanwhile
            print("background work may continue:", granted.grant_until is not None)

            locked = await phone.secrets.lock("noor")
            print("locked in one:", locked.state, "- in the other:", await answer_of(server))
            ended = (await server.secrets.status("noor")).grant_until is None
            print("the grant ended with it:", ended)

            try:
                await server.secrets.unlock("noor", words=server.secrets.fresh_words())
            except ElytronError as error:
                print(f"with other words: {error.key}")

            await server.erase(whole_space="noor", user_id="noor")  # needs no secret
            print("after erasure, a new space:", (await server.secrets.status("noor")).state)


asyncio.run(main())
