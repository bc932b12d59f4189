"""A process that imports an archive into a space that holds memories, and kills itself in the middle.

import_worker <url> <archive> <point> <number>: it dies as it comes to the `point` for the `number`th time.
"""

import asyncio
import os
import sys

from tests.sdk.compaction_worker import dying

import elytron
from elytron.transfer import restore
from elytron_store.sqlite.database.journal_rows import Appending


async def main(url: str, archive: str, point: str, number: int) -> None:
    async with elytron.open(url, space="ada") as memory:
        await memory.inspect()
        match point:
            case "write":
                restore.write_turns = dying(restore.write_turns, number)
            case "journal":
                Appending.finish = dying(Appending.finish, number)
            case _:
                os.fsync = dying(os.fsync, number)
        await memory.import_archive(archive, mode=elytron.ImportMode.BOOTSTRAP)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
