"""Storing a text."""

import click

from elytron_cli.input.files import spoken
from elytron_cli.input.options import choosing, command, common, dated
from elytron_cli.input.values import valid
from elytron_cli.runner import answer, scope_of
from elytron_cli.tables import common as tables_common
from elytron_core.clock import Instant
from elytron_core.contracts.conversation.write import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.planes.conversation.transcript import Message, Role
from elytron_store import WhenMissing


@command("add")
@click.argument("text")
@click.option("--speaker", metavar="NAME", help="Who said it.")
@choosing("--role", Role.USER, "As what.")
@dated("--at", "When it was said, in ISO 8601; default: now.")
@click.option("--conversation", metavar="NAME", help="The conversation it belongs to.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; may be repeated.")
@click.option("--idempotency-key", metavar="KEY", help="Store it once, however often this is run.")
@common
def add(
    *,
    text: str,
    speaker: str | None,
    role: Role,
    at: Instant | None,
    conversation: str | None,
    tags: tuple[str, ...],
    idempotency_key: str | None,
) -> int | None:
    """Store TEXT as evidence ("-" reads standard input). It can be recalled at once."""
    words = spoken(text)
    if not words.strip():
        raise click.UsageError("the text is empty: there is nothing to store")
    message: Message = valid(Message, role=role, text=words, speaker=speaker, at=at)
    write = TranscriptWrite(turns=(valid(TurnDraft, messages=(message,), tags=tags),))
    request = MemoryWriteRequest(scope=scope_of(conversation), write=write, idempotency_key=idempotency_key)
    return answer(request, tables_common.written, when_missing=WhenMissing.MAKE)
