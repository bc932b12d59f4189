"""A conversation's turns as one audience may see them, and the life of their raw text."""

from typing import Any

import click

from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli.input.files import spoken, valid
from elytron_cli.input.filters import filtered
from elytron_cli.input.options import (
    Group,
    OneOf,
    asking,
    choosing,
    command,
    common,
    dated,
    disclosing,
    paged,
    reasoned,
)
from elytron_cli.runner import answer, scope_of
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import recall as tables_transcript
from elytron_cli.terminal.confirmation import confirm
from elytron_core.clock import Instant
from elytron_core.contracts.control import Hidden, ListOrder, MemoryGetRequest, MemoryHistoryRequest, MemoryListRequest
from elytron_core.contracts.transcript import (
    MemoryTranscriptExportRequest,
    MemoryTranscriptLifecycleRequest,
    MemoryTranscriptRepairReport,
    MemoryTranscriptRepairRequest,
    MemoryTranscriptReplayRequest,
    MemoryWriteRequest,
    TranscriptLifecycleTransition,
    TranscriptReplayView,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.evidence import Role
from elytron_core.planes.transcript import Message
from elytron_store import WhenMissing

_WHERE = click.option("--conversation", metavar="NAME", help="Whose turns.")
_PAGE = paged("Turns on a page.")


@click.group("transcript", cls=Group)
@common
def transcript() -> None:
    """Show a conversation as one audience may see it, put its text away or delete it, check its links."""


@transcript.command("replay")
@_WHERE
@choosing("--view", TranscriptReplayView.HOST_UI, "Whose eyes.")
@_PAGE
@common
def replay(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns as the view may see them, and what was left out and why."""
    return answer(MemoryTranscriptReplayRequest(scope=scope_of(conversation), **asked), tables_transcript.viewed)


@transcript.command("export")
@_WHERE
@_PAGE
@common
def export(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns as they may leave the house: the export view."""
    return answer(MemoryTranscriptExportRequest(scope=scope_of(conversation), **asked), tables_transcript.viewed)


@transcript.command("lifecycle")
@click.argument("transition", type=OneOf(TranscriptLifecycleTransition))
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@_WHERE
@reasoned("Why; the report holds it.")
@asking
@common
def lifecycle(
    *,
    transition: TranscriptLifecycleTransition,
    turns: tuple[str, ...],
    conversation: str | None,
    reason: str,
    yes: bool,
) -> int | None:
    """Archive, restore, mask or delete the raw text of TURNs, or of the whole conversation; review changes nothing."""
    if transition is TranscriptLifecycleTransition.DELETE_RAW:
        what = f"{len(turns)} turns" if turns else "the whole conversation"
        confirm(f"Delete the text of {what}, with no way back?", yes=yes)
    scope = scope_of(conversation)
    request = MemoryTranscriptLifecycleRequest(scope=scope, transition=transition, turn_ids=turns, reason=reason)
    return answer(request, tables_transcript.turned)


@transcript.command("repair")
@_WHERE
@common
def repair(*, conversation: str | None) -> int | None:
    """Say which links of the conversation are broken. Exits with 13 if any is."""

    def code(report: MemoryTranscriptRepairReport) -> int | None:
        return EXIT_DAMAGE if report.fail_closed else None

    return answer(MemoryTranscriptRepairRequest(scope=scope_of(conversation)), tables_transcript.checked, code=code)


@command("get")
@click.argument("memory")
@disclosing
@common
def get(*, memory: str, include_private: bool) -> int | None:
    """Show the memory with the id MEMORY."""
    return answer(MemoryGetRequest(id=memory, include_private=include_private), tables_common.memory)


@command("list")
@paged("Memories on a page.")
@click.option("--hidden", is_flag=True, help="Also what was forgotten, put away, replaced or retired.")
@click.option("--latest", is_flag=True, help="What was stored last comes first; one page.")
@disclosing
@filtered
@common
def list_memories(*, hidden: bool, latest: bool, **asked: Any) -> int | None:
    """List memories in the order in which they were stored."""
    which = Hidden.LISTED if hidden else Hidden.LEFT_OUT
    order = ListOrder.LATEST if latest else ListOrder.STORED
    return answer(MemoryListRequest(hidden=which, order=order, **asked), tables_common.listed)


@command("history")
@click.argument("memory")
@disclosing
@common
def history(*, memory: str, include_private: bool) -> int | None:
    """Show what happened to the memory with the id MEMORY, oldest first."""
    return answer(MemoryHistoryRequest(id=memory, include_private=include_private), tables_common.history)


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
