"""Commands for a user's own secret, on a local store or on a server."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import click
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from elytron.secrets.forms import SecretStatus, SecretWords
from elytron_cli.input.options import PageGroup, common_options
from elytron_cli.session import open_session, run_output, run_settings, without_core_dumps
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput, at_terminal
from elytron_core.errors import InvalidInput, Unsupported
from elytron_core.model import Value
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from elytron.secrets.space_secrets import SpaceSecrets

ROOT = "/v1/secret"
_Hidden = Annotated[str | None, Field(repr=False)]
_URL = click.option("--url", envvar="ELYTRON_URL", metavar="URL", help="Address of a server, instead of the store.")
_KEY = click.option("--key", envvar="ELYTRON_API_KEY", metavar="KEY", help="Access key; prefer ELYTRON_API_KEY.")
_MINUTES = click.option("--minutes", type=click.IntRange(1, 1440), metavar="N", help="Duration, in minutes.")
_PASSPHRASE = click.option("--passphrase", is_flag=True, help="Use a passphrase instead of twelve words.")


class SentSecret(Value):
    """A secret to be sent to a server."""

    words: _Hidden = None
    passphrase: _Hidden = None
    new_words: _Hidden = None
    new_passphrase: _Hidden = None
    minutes: int | None = None

    @model_serializer(mode="wrap")
    def _given_fields(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the given fields, because each route rejects unknown ones."""
        return {name: value for name, value in write(self).items() if value is not None}


Work = Callable[["SpaceSecrets", str], Awaitable[SecretStatus]]


@click.group("secret", cls=PageGroup)
@common_options
def secret_group() -> None:
    """Seal a space with its user's words or passphrase.

    Secrets are typed without echo, or read as lines of standard input.
    """


@secret_group.command("words")
@common_options
def words_command() -> None:
    """Generate twelve words and print them. They are not stored: write them down, then seal the space with them."""
    from elytron.secrets.space_secrets import SpaceSecrets

    secret_words = SpaceSecrets.fresh_words().get_secret_value()
    run_output().report(SecretWords(words=secret_words), lambda console, _: console.print(secret_words, soft_wrap=True))


@secret_group.command("seal")
@_PASSPHRASE
@_MINUTES
@_URL
@_KEY
@common_options
def seal_command(*, passphrase: bool, minutes: int | None, url: str | None, key: str | None) -> None:
    """Seal the space and all its content with your words or passphrase; nothing else can open it."""
    secret = _asked_secret(is_passphrase=passphrase, minutes=minutes, twice=True)

    _change_secret(
        url,
        key,
        "",
        secret,
        lambda secrets, space: secrets.seal(space, **secret.model_dump()),
        when_missing=WhenMissing.MAKE,
    )


@secret_group.command("unlock")
@_PASSPHRASE
@_MINUTES
@_URL
@_KEY
@common_options
def unlock_command(*, passphrase: bool, minutes: int | None, url: str | None, key: str | None) -> None:
    """Unlock the space on the server at --url; without --url, check the secret.

    Other commands read the secret from ELYTRON_SPACE_SECRET.
    """
    secret = _asked_secret(is_passphrase=passphrase, minutes=minutes)

    _change_secret(url, key, "/unlock", secret, lambda secrets, space: secrets.unlock(space, **secret.model_dump()))


@secret_group.command("lock")
@_URL
@_KEY
@common_options
def lock_command(*, url: str | None, key: str | None) -> None:
    """Lock the space in every process that uses its store, and end its grant."""

    _change_secret(url, key, "/lock", None, lambda secrets, space: secrets.lock(space))


@secret_group.command("status")
@_URL
@_KEY
@common_options
def status_command(*, url: str | None, key: str | None) -> None:
    """Show whether the space is sealed under a secret, and whether it is unlocked."""

    _change_secret(url, key, "", None, lambda secrets, space: secrets.status(space), method="GET")


@secret_group.command("change")
@_PASSPHRASE
@click.option("--new-passphrase", "is_new_passphrase", is_flag=True, help="Use a passphrase as the new secret.")
@_URL
@_KEY
@common_options
def change_command(*, passphrase: bool, is_new_passphrase: bool, url: str | None, key: str | None) -> None:
    """Replace your secret with another one, without rewriting the sealed data."""
    old_secret = _asked_secret(is_passphrase=passphrase)
    new_secret = _asked_secret(is_passphrase=is_new_passphrase, twice=True, what="new ")
    secret_change = SentSecret(
        words=old_secret.words,
        passphrase=old_secret.passphrase,
        new_words=new_secret.words,
        new_passphrase=new_secret.passphrase,
    )

    _change_secret(
        url, key, "/change", secret_change, lambda secrets, space: secrets.change(space, **secret_change.model_dump())
    )


@secret_group.command("rotate")
@_PASSPHRASE
@_URL
@_KEY
@common_options
def rotate_command(*, passphrase: bool, url: str | None, key: str | None) -> None:
    """Re-encrypt the space under a new data key; your secret stays the same, and other processes are locked."""
    secret = _asked_secret(is_passphrase=passphrase)

    _change_secret(url, key, "/rotate", secret, lambda secrets, space: secrets.rotate(space, **secret.model_dump()))


@secret_group.command("grant")
@_MINUTES
@_URL
@_KEY
@common_options
def grant_command(*, minutes: int | None, url: str | None, key: str | None) -> None:
    """Allow jobs and schedules to open the space for 8 hours, or for --minutes.

    For a store, requires ELYTRON_SPACE_SECRET and the store's key file.
    """

    async def work(secrets: "SpaceSecrets", space: str) -> SecretStatus:
        if not secrets.shares_grants:
            raise Unsupported(
                "without a key file, a grant would end with this command: name the key file (--key-file), or the "
                "server that runs the jobs (--url)"
            )
        return await secrets.grant(space, minutes=minutes)

    _change_secret(url, key, "/grant", SentSecret(minutes=minutes), work)


@secret_group.command("revoke")
@_URL
@_KEY
@common_options
def revoke_command(*, url: str | None, key: str | None) -> None:
    """End the grant, so that jobs and schedules wait while the space is locked; needs no secret."""

    _change_secret(url, key, "/grant", None, lambda secrets, space: secrets.revoke(space), method="DELETE")


def _asked_secret(
    *, is_passphrase: bool, minutes: int | None = None, twice: bool = False, what: str = ""
) -> SentSecret:
    """Return the secret that a person types unseen, or the next line of standard input."""
    without_core_dumps()
    name = f"{what}{'passphrase' if is_passphrase else 'twelve words'}"
    if at_terminal():
        text = click.prompt(name.capitalize(), hide_input=True, confirmation_prompt=twice, err=True)
    else:
        text = sys.stdin.readline().strip()
    if not text:
        raise InvalidInput(field=name, problem="is missing: type it, or pass it as a line of standard input")
    if is_passphrase:
        return SentSecret(passphrase=str(text), minutes=minutes)
    return SentSecret(words=str(text), minutes=minutes)


def _change_secret(
    url: str | None,
    key: str | None,
    path: str,
    secret: SentSecret | None,
    work: Work,
    *,
    when_missing: WhenMissing = WhenMissing.REFUSE,
    method: str = "POST",
) -> None:
    output = run_output()
    if url is not None:
        _tell_status(output, asyncio.run(_ask_server(url, key, path, secret or SentSecret(), method=method)))
        return
    settings = run_settings()

    async def whole() -> SecretStatus:
        async with open_session(settings, when_missing=when_missing, loads_search=False) as session:
            return await work(session.runtime.secrets, settings.space.value)

    _tell_status(output, asyncio.run(whole()))


async def _ask_server(url: str, key: str | None, path: str, secret: SentSecret, *, method: str) -> SecretStatus:
    """Return the state in the server's answer to the call at `path`."""
    from elytron.remote.wire import HttpTransport, address_of
    from elytron_core import limits

    transport = HttpTransport(address_of(url, api_key=key), timeout_s=limits.REMOTE_ANSWER_S)
    try:
        match method:
            case "GET":
                return await transport.read(f"{ROOT}{path}", SecretStatus)
            case "DELETE":
                return await transport.remove(f"{ROOT}{path}", SecretStatus)
            case _:
                return await transport.post(f"{ROOT}{path}", secret, SecretStatus)
    finally:
        await transport.close()


def _tell_status(output: CommandOutput, status: SecretStatus) -> None:
    rows = [("space", status.space), ("state", status.state.value)]
    rows += [("secret", f"{status.kind}, {status.derivation}")] if status.kind else []
    rows += [("unlocked until", tables_layout.minute_text(status.until))] if status.until is not None else []
    rows += [("granted until", tables_layout.minute_text(status.grant_until))] if status.grant_until is not None else []
    output.report(status, lambda console, _: tables_layout.show_pairs(console, rows))
