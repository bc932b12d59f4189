"""Keys of sealed stores."""

import asyncio
from pathlib import Path

import click

from elytron_cli.input.options import Group, common
from elytron_cli.runner import output, settings
from elytron_cli.session import opened
from elytron_core.errors import InvalidInput, Unsupported
from elytron_core.model import Value


class KeyReport(Value):
    """A key file after it was made or given a new key. Ids of keys are no secret."""

    file: str
    current: str
    rewrapped: int = 0
    """Data keys in the store that were put under the current key."""


@click.group("keys", cls=Group)
@common
def keys() -> None:
    """Make and rotate the keys of sealed stores. Keep the key file apart from the store and from its backups."""


@keys.command("create")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@common
def create(*, file: Path | None) -> None:
    """Make the key FILE (else the one that --key-file names) with one random key, readable by you alone.

    A store opened with it for the first time is sealed. Without the file, the store is lost.
    """
    from elytron_store.sealed.providers import FileKeys

    path = file or _named()
    made = FileKeys.create(path)
    report = KeyReport(file=str(path), current=made.current())
    output().report(report, lambda console, _: console.print(f"made {path}, current key {report.current}"))


@keys.command("rotate")
@common
def rotate() -> None:
    """Add a new key to the key file and put the store's data keys under it; no stored document is touched."""
    from elytron.journal.notifier import inner
    from elytron_store.sealed.providers import FileKeys
    from elytron_store.sealed.store import SealedStore

    found = settings()
    path = _named()

    async def work() -> KeyReport:
        # Opened first: a wrong store must not leave a new key behind.
        async with opened(found) as session:
            store = inner(session.runtime.context.store)
            if not isinstance(store, SealedStore):
                raise Unsupported("this store is not sealed: there is nothing to rotate")
            current = FileKeys(path).add_key()
            return KeyReport(file=str(path), current=current, rewrapped=await store.rotate_key_encryption())

    report = asyncio.run(work())
    told = f"current key {report.current}, {report.rewrapped} data keys put under it"
    hint = "rotate the other stores of this key file too"
    output().report(report, lambda console, _: console.print(f"{told}; {hint}", soft_wrap=True))


def _named() -> Path:
    found = settings().key_file
    if found is None:
        raise InvalidInput(field="--key-file", problem="is missing: name the key file")
    return Path(found.value)
