"""The command that compares a store with recorded journal heads."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import click
from pydantic import Field

from elytron.journal.verification import VerifiedSpace, verify_store
from elytron_adapter.envelope import EXIT_DAMAGE
from elytron_cli.config import RunSettings
from elytron_cli.input.options import common_options, page_command
from elytron_cli.input.values import read_value, replace_file
from elytron_cli.session import (
    keys_of,
    run_output,
    run_settings,
)
from elytron_cli.tables import inspection as tables_inspection
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import safe_line
from elytron_core import limits
from elytron_core.clock import SystemClock
from elytron_core.contracts.inspection import (
    HEAD,
)
from elytron_core.errors import (
    LimitExceeded,
)
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.scope import Space
from elytron_core.strict_json import canonical_bytes
from elytron_store import WhenMissing, open_as_made

_SCHEMA: Final = "elytron.state.conversation_heads"


class HeadsFile(Value):
    """The heads of a store's spaces when it was last found sound, or accepted."""

    schema_name: Literal["elytron.state.conversation_heads"] = _SCHEMA
    schema_version: Literal[1] = 1
    heads: dict[Space, Annotated[str, Field(pattern=f"^{HEAD.pattern}$")]]


class VerifyReport(Value):
    """Every space with its recorded head, and whether the current heads replaced them."""

    spaces: tuple[VerifiedSpace, ...]
    ok: bool
    renewed: bool


@page_command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--accept", is_flag=True, help="Write the current heads to FILE regardless; required for a new FILE.")
@common_options
def verify_command(*, file: Path, accept: bool) -> int | None:
    """Compare every space with the journal heads recorded in FILE, to detect tampering or rollback.

    Keep FILE where those who can write to the store cannot change it. A missing space, a shorter journal or a different
    history means that a space was restored, changed or erased; the exit code is then 13, and FILE is left unchanged.
    Each document is also compared with its last journal entry. If all is well, the current heads are written to FILE.
    """
    settings = run_settings()
    # Checked with `os`, which also returns False for an invalid file name.
    is_first_run = accept and not os.path.exists(file)  # noqa: PTH110
    heads = {} if is_first_run else read_value(HeadsFile, file).heads
    spaces = asyncio.run(_verify_spaces(settings, heads))
    are_all_sound = all(space.is_sound for space in spaces)
    is_renewing = are_all_sound or accept
    if is_renewing:
        replace_file(file, _file_of(spaces))
    report = VerifyReport(spaces=spaces, ok=are_all_sound, renewed=is_renewing)
    output = run_output()
    output.report(
        report,
        lambda console, _: tables_layout.show_pairs(
            console, [(safe_line(each.space), _check_text(each)) for each in spaces]
        ),
    )
    return None if are_all_sound or accept else EXIT_DAMAGE


async def _verify_spaces(settings: RunSettings, heads: Mapping[SpaceId, str]) -> tuple[VerifiedSpace, ...]:
    store = await open_as_made(
        settings.store.value, clock=SystemClock(), keys=keys_of(settings), when_missing=WhenMissing.REFUSE
    )
    try:
        return await verify_store(store, heads)
    finally:
        await store.close()


def _file_of(spaces: tuple[VerifiedSpace, ...]) -> bytes:
    data = canonical_bytes(HeadsFile(heads={SpaceId(space.space): space.head for space in spaces if space.head}))
    if len(data) > limits.JSON_BYTES:
        raise LimitExceeded(what="bytes in a file of heads", limit=limits.JSON_BYTES, found=len(data))
    return data


def _check_text(space: VerifiedSpace) -> str:
    standing_text = space.standing.value if space.standing is not None else "new"
    shows_account = space.head or not space.account.ok
    return f"{standing_text}; {tables_inspection.account_text(space.account)}" if shows_account else standing_text
