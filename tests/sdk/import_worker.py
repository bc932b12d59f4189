"""A process that imports an archive into a space that holds memories, and kills itself at a point of it."""

import os

from tests.sdk.compaction_worker import dying

import elytron
from elytron.transfer import restore
from elytron_store.sqlite.database.journal_rows import Appending


async def main(url: str, archive: str, point: str, number: int) -> None:
    async with elytron.open(url, space="ada") as memory:
        await memory.inspect()
        match point:
            case "write":
                restore.commit = dying(restore.commit, number)
            case "journal":
                Appending.finish = dying(Appending.finish, number)
            case _:
                os.fsync = dying(os.fsync, number)
        await memory.import_archive(archive, mode=elytron.ImportMode.BOOTSTRAP)
