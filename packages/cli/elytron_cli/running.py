"""From a parsed command line to an open session and an output."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from elytron_cli.config import Settings, resolve
from elytron_cli.options import as_json, told
from elytron_cli.output import Output
from elytron_cli.progress import UnaskedBar
from elytron_cli.session import Session, opened
from elytron_store import WhenMissing


def settings() -> Settings:
    """Return the settings of this run."""
    return resolve(told(click.get_current_context()), environment=os.environ, folder=Path.cwd())


def output() -> Output:
    """Return where this run prints."""
    return Output(as_json(click.get_current_context()))


def run(
    work: Callable[[Session, Output], Awaitable[int | None]], /, *, when_missing: WhenMissing = WhenMissing.REFUSE
) -> int | None:
    """Open the store, do `work`, close; return its exit code. Raises StoreMissing where no store is to be made."""
    found, out = settings(), output()

    async def whole() -> int | None:
        with UnaskedBar("indexing", unit="entries", shown=not out.is_json) as bar:
            async with opened(found, when_missing=when_missing, progress=bar.at) as session:
                session.runtime.context.entries.add("cli")
                return await work(session, out)

    return asyncio.run(whole())


def storing(*, dry_run: bool) -> WhenMissing:
    """Return what a command does that stores something, where no store is yet: a dry run leaves none there."""
    return WhenMissing.PRETEND if dry_run else WhenMissing.MAKE
