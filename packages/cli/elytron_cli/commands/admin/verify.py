"""The heads of every space, kept in a file elsewhere, so that a store that was put back is found out."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import click
from pydantic import Field

from elytron.journal.verification import VerifiedSpace, verify_store
from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli.config import Settings
from elytron_cli.input.files import read_value, replace_file
from elytron_cli.input.options import command, common
from elytron_cli.runner import output, settings
from elytron_cli.session import keys_of
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import line
from elytron_core import limits
from elytron_core.canonical import canonical_bytes
from elytron_core.clock import SystemClock
from elytron_core.contracts.admin.inspection import HEAD
from elytron_core.errors import LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.scope import Space
from elytron_store import WhenMissing, open_as_made

_SCHEMA: Final = "elytron.state.conversation_heads"


class HeadsFile(Value):
    """The heads of a store's spaces, as they were when it was last found sound, or accepted."""

    schema_name: Literal["elytron.state.conversation_heads"] = _SCHEMA
    schema_version: Literal[1] = 1
    heads: dict[Space, Annotated[str, Field(pattern=f"^{HEAD.pattern}$")]]


class VerifyReport(Value):
    """Every space beside the head that was kept of it, and whether the heads of now were kept in their place."""

    spaces: tuple[VerifiedSpace, ...]
    ok: bool
    renewed: bool


@command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--accept", is_flag=True, help="Keep the current heads in place of those in FILE; needed the first time.")
@common
def verify(*, file: Path, accept: bool) -> int | None:
    """Say whether the store still holds what it held: compare every space with the heads kept in FILE.

    Keep FILE where those who can write the store cannot write. A space that is shorter than its head, has another
    history, or is gone was put back, changed or erased: exits with 13 and leaves FILE as it is. Also compares each
    document with the last journal entry about it. If all is well, FILE then holds the present heads.
    """
    found = settings()
    # Asked of `os`, which has a no also for what is no name of a file.
    is_first = accept and not os.path.exists(file)  # noqa: PTH110
    kept = {} if is_first else read_value(HeadsFile, file).heads
    spaces = asyncio.run(_verified(found, kept))
    ok = all(space.is_sound for space in spaces)
    renewed = ok or accept
    if renewed:
        replace_file(file, _file_of(spaces))
    report = VerifyReport(spaces=spaces, ok=ok, renewed=renewed)
    out = output()
    out.report(
        report, lambda console, _: tables_common.pairs(console, [(line(each.space), _told(each)) for each in spaces])
    )
    return None if ok or accept else EXIT_DAMAGE


async def _verified(found: Settings, kept: Mapping[SpaceId, str]) -> tuple[VerifiedSpace, ...]:
    store = await open_as_made(
        found.store.value, clock=SystemClock(), keys=keys_of(found), when_missing=WhenMissing.REFUSE
    )
    try:
        return await verify_store(store, kept)
    finally:
        await store.close()


def _file_of(spaces: tuple[VerifiedSpace, ...]) -> bytes:
    data = canonical_bytes(HeadsFile(heads={SpaceId(space.space): space.head for space in spaces if space.head}))
    if len(data) > limits.JSON_BYTES:
        raise LimitExceeded(what="bytes in a file of heads", limit=limits.JSON_BYTES, found=len(data))
    return data


def _told(space: VerifiedSpace) -> str:
    standing = space.standing.value if space.standing is not None else "new"
    is_told = space.head or not space.account.ok
    return f"{standing}; {tables_common.accounted(space.account)}" if is_told else standing
