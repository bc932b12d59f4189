"""Storing a text."""

import sys

import click

from elytron_cli.input.options import command, common
from elytron_cli.input.values import valid
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.terminal.output import Output
from elytron_core import limits
from elytron_core.clock import instant
from elytron_core.contracts.conversation.write import MemoryWriteReport, MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.errors import PayloadTooLarge
from elytron_core.planes.conversation.transcript import Message, Role
from elytron_core.scope import Scope
from elytron_store import WhenMissing


@command("add")
@click.argument("text")
@click.option("--speaker", metavar="NAME", help="Who said it.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.USER.value,
    show_default=True,
    help="As what.",
)
@click.option("--at", metavar="WHEN", help="When it was said, in ISO 8601; now, where nothing is given.")
@click.option("--conversation", metavar="NAME", help="The conversation it belongs to.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; may be repeated.")
@click.option("--idempotency-key", metavar="KEY", help="Store it once, however often this is run.")
@common
def add(
    *,
    text: str,
    speaker: str | None,
    role: str,
    at: str | None,
    conversation: str | None,
    tags: tuple[str, ...],
    idempotency_key: str | None,
) -> int | None:
    """Store TEXT as evidence ("-" reads standard input). It can be recalled at once."""
    words = _standard_input() if text == "-" else text
    if not words.strip():
        raise click.UsageError("the text is empty: there is nothing to store")
    said = instant(at, field="--at") if at is not None else None
    message: Message = valid(Message, role=Role(role), text=words, speaker=speaker, at=said)
    turn: TurnDraft = valid(TurnDraft, messages=(message,), tags=tags)

    async def work(session: Session, out: Output) -> None:
        report = await session.write(
            MemoryWriteRequest(
                scope=conversation_scope(session, conversation),
                write=TranscriptWrite(turns=(turn,)),
                idempotency_key=idempotency_key,
            )
        )
        out.report(report, lambda console: console.print(receipt(report)))

    return run(work, when_missing=WhenMissing.MAKE)


def conversation_scope(session: Session, conversation: str | None, /) -> Scope | None:
    """Return the session's scope, in the conversation that is named."""
    given = {"conversation": conversation, "chat": None} if conversation is not None else {}
    return valid(Scope, **((session.scope.model_dump() if session.scope is not None else {}) | given))


def _standard_input() -> str:
    limit = limits.MESSAGE_CHARS * 4
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise PayloadTooLarge(limit=limit, what="standard input", way_out="give it in parts")
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8") from None


def receipt(report: MemoryWriteReport, /) -> str:
    """Return a line for each decision: its outcome, its id, and the reason unless it was simply accepted."""
    told = ((decision.outcome.value, decision.id, decision.reason) for decision in report.decisions)
    return "\n".join("  ".join(part for part in parts if part) for parts in told)
