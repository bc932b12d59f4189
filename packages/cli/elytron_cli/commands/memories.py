"""Commands that store, list, find, correct, forget and erase memories, project a block, and read transcripts."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from elytron.api.metadata_filters import where_from
from elytron_adapter.envelope import EXIT_DAMAGE
from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    choice_option,
    common_options,
    dry_run_option,
    limit_option,
    page_command,
    page_options,
    private_option,
    reason_option,
    size_option,
    time_option,
    yes_option,
)
from elytron_cli.input.values import filter_options, spoken_text, valid_value
from elytron_cli.session import CommandSession, answer_request, run_settings, run_work, scope_of
from elytron_cli.tables import hits as tables_hits
from elytron_cli.tables import transcript as tables_transcript
from elytron_cli.terminal.output import CommandOutput, at_terminal, confirm_question
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.memories import (
    ControlOutcome,
    HiddenFilter,
    ListOrder,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryGetRequest,
    MemoryHistoryRequest,
    MemoryListRequest,
    OriginKind,
    OutsideOrigin,
)
from elytron_core.contracts.projection import MemoryProjectionRequest, MissReason, PrivateContext
from elytron_core.contracts.recall import HitDiversity, MemoryRecallRequest, RecallExtent, RecallFilters, RecallGate
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
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_core.profiles import MemoryPressure
from elytron_store import WhenMissing

_WHERE = click.option("--conversation", metavar="NAME", help="Name of the conversation.")
_PAGE = page_options("Maximum number of turns on a page.")


@click.group("transcript", cls=PageGroup)
@common_options
def transcript_group() -> None:
    """Show a conversation for one audience, archive or delete its text, and check its links."""


@transcript_group.command("replay")
@_WHERE
@choice_option("--view", TranscriptReplayView.HOST_UI, "Audience, which determines what is visible.")
@_PAGE
@common_options
def replay_command(*, conversation: str | None, **options: Any) -> int | None:
    """Show the turns that the view may see, and the reasons for omissions."""
    return answer_request(
        MemoryTranscriptReplayRequest(scope=scope_of(conversation), **options), tables_transcript.show_view
    )


@transcript_group.command("export")
@_WHERE
@_PAGE
@common_options
def export_command(*, conversation: str | None, **options: Any) -> int | None:
    """Show the turns in the export view, which contains only exportable content."""
    return answer_request(
        MemoryTranscriptExportRequest(scope=scope_of(conversation), **options), tables_transcript.show_view
    )


@transcript_group.command("lifecycle")
@click.argument("transition", type=OneOf(TranscriptLifecycleTransition))
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@_WHERE
@reason_option("Reason, recorded in the report.")
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
    """Archive, restore, mask or delete the text of TURNs or of the whole conversation; review changes nothing."""
    if transition is TranscriptLifecycleTransition.DELETE_RAW:
        subject_phrase = f"{len(turns)} turns" if turns else "the whole conversation"
        confirm_question(f"Delete the text of {subject_phrase}? This cannot be undone.", yes=yes)
    scope = scope_of(conversation)
    request = MemoryTranscriptLifecycleRequest(scope=scope, transition=transition, turn_ids=turns, reason=reason)
    return answer_request(request, tables_transcript.show_lifecycle)


@transcript_group.command("repair")
@_WHERE
@common_options
def repair_command(*, conversation: str | None) -> int | None:
    """Check the links of the conversation, and report broken ones. Exits with 13 if any link is broken."""

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
    return answer_request(MemoryGetRequest(id=memory, include_private=include_private), tables_hits.show_memory)


@page_command("list")
@page_options("Maximum number of memories on a page.")
@click.option("--hidden", is_flag=True, help="Include forgotten, archived, replaced and retired memories.")
@click.option("--latest", is_flag=True, help="List the latest memories first, on a single page.")
@private_option
@filter_options
@common_options
def list_memories(*, hidden: bool, latest: bool, **options: Any) -> int | None:
    """List memories in the order they were stored."""
    hidden_filter = HiddenFilter.LISTED if hidden else HiddenFilter.LEFT_OUT
    order = ListOrder.LATEST if latest else ListOrder.STORED
    return answer_request(MemoryListRequest(hidden=hidden_filter, order=order, **options), tables_hits.show_memories)


@page_command("history")
@click.argument("memory")
@private_option
@common_options
def history_command(*, memory: str, include_private: bool) -> int | None:
    """Show the history of the memory with the id MEMORY, oldest first."""
    return answer_request(MemoryHistoryRequest(id=memory, include_private=include_private), tables_hits.show_history)


@page_command("add")
@click.argument("text")
@click.option("--speaker", metavar="NAME", help="Name of the speaker.")
@choice_option("--role", EvidenceRole.USER, "Role of the message.")
@time_option("--at", "Time of the message, as ISO 8601 or in words. [default: now]")
@click.option("--conversation", metavar="NAME", help="Conversation to add the message to.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag.")
@click.option("--idempotency-key", metavar="KEY", help="Key that makes repeated runs store the text only once.")
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
    """Store TEXT as evidence, available to recall immediately; "-" reads standard input."""
    message_text = spoken_text(text)
    if not message_text.strip():
        raise click.UsageError("the text is empty; there is nothing to store")
    message: Message = valid_value(Message, role=role, text=message_text, speaker=speaker, at=at)
    transcript_write = TranscriptWrite(turns=(valid_value(TurnDraft, messages=(message,), tags=tags),))
    request = MemoryWriteRequest(scope=scope_of(conversation), write=transcript_write, idempotency_key=idempotency_key)
    return answer_request(request, tables_hits.show_written, when_missing=WhenMissing.MAKE)


@page_command("recall")
@click.argument("query")
@limit_option("Maximum number of memories.", most=limits.RECALL_MAX, usual=limits.RECALL_DEFAULT)
@click.option("--max-tokens", type=int, metavar="N", help="Maximum number of tokens of text.")
@click.option("--explain", is_flag=True, help="Show the signals behind each score, and the first omitted hits.")
@click.option(
    "--neighbours",
    type=click.IntRange(0, limits.RECALL_NEIGHBOURS),
    default=0,
    metavar="N",
    help="Number of messages before and after each hit.",
)
@click.option("--why-not", "why_not", multiple=True, metavar="ID", help="Memory whose absence to explain.")
@choice_option("--extent", RecallExtent.LIMIT, "Number of hits: up to the limit, or as many as the query needs.")
@choice_option("--diversity", HitDiversity.AUTO, "Spread of the hits across conversations.")
@click.option("--min-score", type=click.FloatRange(0.0, 1.0), default=0.0, help="Minimum score of a hit.")
@click.option("--where", metavar="JSON", help='Conditions on metadata: {"team": "red", "size": {"gte": 3}}.')
@click.option("--cursor", metavar="CURSOR", help="Cursor of the next page, from the previous page.")
@private_option
@filter_options
@common_options
def recall_command(*, explain: bool, where: str | None, filters: RecallFilters, **options: Any) -> int | None:
    """Find the memories that answer QUERY, best first."""
    if where is not None:
        filters = filters.model_copy(update={"where": where_from(_filter_conditions(where))})
    return answer_request(
        MemoryRecallRequest(filters=filters, **options), partial(tables_hits.show_recall, explain=explain)
    )


@page_command("project")
@click.argument("query")
@size_option(limits.PROJECTION_CHARS_DEFAULT, "Size of the block, in characters.")
@click.option("--explain", is_flag=True, help="Show the numbers by which recalled memories were shown or held back.")
@choice_option("--recall-gate", RecallGate.AUTO, "Whether recalled memories are held back unless QUERY asks for them.")
@choice_option("--pressure", MemoryPressure.NORMAL, "Fullness of the context window; fuller means a smaller block.")
@private_option
@filter_options
@common_options
def project_command(*, include_private: bool, explain: bool, **options: Any) -> int | None:
    """Show the memory block that a model would see for QUERY, and how its budget is used.

    If the block is empty, the report's miss_reason explains why; if nothing fits, standard error says so too.
    """
    private_context = PrivateContext.ALLOWED if include_private else PrivateContext.WITHHELD
    request = MemoryProjectionRequest(private_context=private_context, **options)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await session.call(request)
        out.report(report, partial(tables_hits.show_projection, explain=explain))
        if report.miss_reason is MissReason.NO_BUDGET:
            out.hint(f"no memory fits into a block of {report.budget} characters: raise --max-chars")

    return run_work(work)


def _filter_conditions(text: str) -> Mapping[str, Any]:
    conditions = strict_json.parse_json(text.encode())
    if not isinstance(conditions, dict):
        raise InvalidInput(field="--where", problem="is not a JSON object")
    return conditions


NOT_FOUND = 3


@page_command("forget")
@click.argument("memories", nargs=-1, required=True)
@click.option("--undo", is_flag=True, help="Restore forgotten memories instead.")
@reason_option()
@dry_run_option()
@common_options
def forget_command(*, memories: tuple[str, ...], undo: bool, reason: str, dry_run: bool) -> int | None:
    """Hide the memories with these ids from recall and projection; evidence and history are preserved."""
    return _answer_control(MemoryForgetRequest(ids=memories, undo=undo, reason=reason, dry_run=dry_run))


@page_command("correct")
@click.argument("memory")
@click.argument("text")
@reason_option()
@dry_run_option()
@common_options
def correct_command(*, memory: str, text: str, reason: str, dry_run: bool) -> int | None:
    """Change the content of the fact or message with the id MEMORY to TEXT; its history is preserved."""
    return _answer_control(MemoryCorrectRequest(id=memory, content=text, reason=reason, dry_run=dry_run))


@page_command("erase")
@click.argument("memories", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Erase the whole space.")
@click.option(
    "--origin", metavar="KIND:NAME", help="Source to erase: a tool, page, upload or session, such as `tool:browse`."
)
@click.option("--token", metavar="TOKEN", help="Token of a dry run with --origin, to erase what it listed.")
@yes_option
@reason_option()
@dry_run_option()
@common_options
def erase_command(
    *,
    memories: tuple[str, ...],
    everything: bool,
    origin: str | None,
    token: str | None,
    yes: bool,
    reason: str,
    dry_run: bool,
) -> int | None:
    """Erase memories physically: by id, by origin, or the whole space. This cannot be undone."""
    if bool(memories) + everything + (origin is not None) != 1:
        raise click.UsageError("name the memories to erase, or pass --origin or --all")
    if token is not None and origin is None:
        raise click.UsageError("--token requires --origin")
    if origin is not None:
        return _erase_origin(_named_origin(origin), token=token, yes=yes, reason=reason, dry_run=dry_run)
    space = run_settings().space.value
    if not everything:
        confirm_question(f"Erase {', '.join(memories)} from {space!r}? This cannot be undone.", yes=yes or dry_run)
        return _answer_control(MemoryEraseRequest(ids=memories, reason=reason, dry_run=dry_run))
    if not yes and not dry_run and not at_terminal():
        raise click.UsageError("--all erases the whole space: pass --yes to confirm")
    confirm_question(f"Erase everything in the space {space!r}? This cannot be undone.", yes=yes or dry_run)
    return _answer_control(MemoryEraseRequest(whole_space=space, reason=reason, dry_run=dry_run))


def _named_origin(text: str) -> OutsideOrigin:
    kind, _, name = text.partition(":")
    if kind not in set(OriginKind) or not name:
        raise click.BadParameter(f"must be KIND:NAME; KIND is one of {', '.join(OriginKind)}", param_hint="--origin")
    return valid_value(OutsideOrigin, kind=kind, name=name)


def _erase_origin(origin: OutsideOrigin, *, token: str | None, yes: bool, reason: str, dry_run: bool) -> int | None:
    """List what came through `origin`, ask, and erase it. Without a terminal, `yes` or `token`, only list it."""
    erase_request = MemoryEraseRequest(origin=origin, token=token, reason=reason, dry_run=dry_run or token is None)

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        report = await session.call(erase_request)
        if not dry_run and token is None and report.decisions and (yes or at_terminal()):
            if not yes:
                out.report(report, tables_hits.show_controlled)
            confirm_question("Erase all of these? This cannot be undone.", yes=yes)
            confirmed_request = MemoryEraseRequest(origin=origin, token=report.token, reason=reason)
            report = await session.call(confirmed_request)
        out.report(report, tables_hits.show_controlled)
        return None if report.decisions else NOT_FOUND

    return run_work(work)


def _answer_control(request: MemoryForgetRequest | MemoryCorrectRequest | MemoryEraseRequest) -> int | None:
    def code(report: MemoryControlReport) -> int | None:
        return NOT_FOUND if {each.outcome for each in report.decisions} == {ControlOutcome.NOT_FOUND} else None

    return answer_request(request, tables_hits.show_controlled, code=code)
