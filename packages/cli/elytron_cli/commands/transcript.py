"""A conversation's turns as one audience may see them, and the life of their raw text."""

from typing import Any

import click

from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli.input.files import spoken_text, valid_value
from elytron_cli.input.filters import filter_options
from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    choice_option,
    common_options,
    page_command,
    page_options,
    private_option,
    reason_option,
    time_option,
    yes_option,
)
from elytron_cli.runner import answer_request, scope_of
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import recall as tables_transcript
from elytron_cli.terminal.confirmation import confirm_question
from elytron_core.clock import Instant
from elytron_core.contracts.control import (
    HiddenFilter,
    ListOrder,
    MemoryGetRequest,
    MemoryHistoryRequest,
    MemoryListRequest,
)
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
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_store import WhenMissing

_WHERE = click.option("--conversation", metavar="NAME", help="Whose turns.")
_PAGE = page_options("Turns on a page.")


@click.group("transcript", cls=PageGroup)
@common_options
def transcript_group() -> None:
    """Show a conversation as one audience may see it, put its text away or delete it, check its links."""


@transcript_group.command("replay")
@_WHERE
@choice_option("--view", TranscriptReplayView.HOST_UI, "Which reader the turns are shown for: each sees what it may.")
@_PAGE
@common_options
def replay_command(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns as the view may see them, and what was left out and why."""
    return answer_request(
        MemoryTranscriptReplayRequest(scope=scope_of(conversation), **asked), tables_transcript.show_view
    )


@transcript_group.command("export")
@_WHERE
@_PAGE
@common_options
def export_command(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns in the export view: only content that may be exported."""
    return answer_request(
        MemoryTranscriptExportRequest(scope=scope_of(conversation), **asked), tables_transcript.show_view
    )


@transcript_group.command("lifecycle")
@click.argument("transition", type=OneOf(TranscriptLifecycleTransition))
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@_WHERE
@reason_option("Why; the report holds it.")
@yes_option
@common_options
def lifecycle_command(
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
        confirm_question(f"Delete the text of {what}, with no way back?", yes=yes)
    scope = scope_of(conversation)
    request = MemoryTranscriptLifecycleRequest(scope=scope, transition=transition, turn_ids=turns, reason=reason)
    return answer_request(request, tables_transcript.show_lifecycle)


@transcript_group.command("repair")
@_WHERE
@common_options
def repair_command(*, conversation: str | None) -> int | None:
    """Say which links of the conversation are broken. Exits with 13 if any is."""

    def code(report: MemoryTranscriptRepairReport) -> int | None:
        return EXIT_DAMAGE if report.fail_closed else None

    return answer_request(
        MemoryTranscriptRepairRequest(scope=scope_of(conversation)), tables_transcript.show_links, code=code
    )


@page_command("get")
@click.argument("memory")
@private_option
@common_options
def get_command(*, memory: str, include_private: bool) -> int | None:
    """Show the memory with the id MEMORY."""
    return answer_request(MemoryGetRequest(id=memory, include_private=include_private), tables_common.show_memory)


@page_command("list")
@page_options("Memories on a page.")
@click.option("--hidden", is_flag=True, help="Also what was forgotten, put away, replaced or retired.")
@click.option("--latest", is_flag=True, help="What was stored last comes first; one page.")
@private_option
@filter_options
@common_options
def list_memories(*, hidden: bool, latest: bool, **asked: Any) -> int | None:
    """List memories in the order in which they were stored."""
    which = HiddenFilter.LISTED if hidden else HiddenFilter.LEFT_OUT
    order = ListOrder.LATEST if latest else ListOrder.STORED
    return answer_request(MemoryListRequest(hidden=which, order=order, **asked), tables_common.show_memories)


@page_command("history")
@click.argument("memory")
@private_option
@common_options
def history_command(*, memory: str, include_private: bool) -> int | None:
    """Show what happened to the memory with the id MEMORY, oldest first."""
    return answer_request(MemoryHistoryRequest(id=memory, include_private=include_private), tables_common.show_history)


@page_command("add")
@click.argument("text")
@click.option("--speaker", metavar="NAME", help="Who said it.")
@choice_option("--role", EvidenceRole.USER, "As what.")
@time_option("--at", "When it was said, in ISO 8601 or in words; default: now.")
@click.option("--conversation", metavar="NAME", help="The conversation it belongs to.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; may be repeated.")
@click.option("--idempotency-key", metavar="KEY", help="Store it once, however often this is run.")
@common_options
def add_command(
    *,
    text: str,
    speaker: str | None,
    role: EvidenceRole,
    at: Instant | None,
    conversation: str | None,
    tags: tuple[str, ...],
    idempotency_key: str | None,
) -> int | None:
    """Store TEXT as evidence ("-" reads standard input). It can be recalled at once."""
    words = spoken_text(text)
    if not words.strip():
        raise click.UsageError("the text is empty: there is nothing to store")
    message: Message = valid_value(Message, role=role, text=words, speaker=speaker, at=at)
    write = TranscriptWrite(turns=(valid_value(TurnDraft, messages=(message,), tags=tags),))
    request = MemoryWriteRequest(scope=scope_of(conversation), write=write, idempotency_key=idempotency_key)
    return answer_request(request, tables_common.show_written, when_missing=WhenMissing.MAKE)
