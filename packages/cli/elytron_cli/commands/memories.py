"""Memories at the command line: kept, listed, found, shown to a model, corrected, forgotten, erased; transcripts."""

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
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import CommandOutput, at_terminal, confirm_question
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.control import (
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
from elytron_core.contracts.recall import HitDiversity, MemoryRecallRequest, RecallExtent, RecallFilters
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
    return answer_request(MemoryTranscriptReplayRequest(scope=scope_of(conversation), **asked), tables_common.show_view)


@transcript_group.command("export")
@_WHERE
@_PAGE
@common_options
def export_command(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns in the export view: only content that may be exported."""
    return answer_request(MemoryTranscriptExportRequest(scope=scope_of(conversation), **asked), tables_common.show_view)


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
    return answer_request(request, tables_common.show_lifecycle)


@transcript_group.command("repair")
@_WHERE
@common_options
def repair_command(*, conversation: str | None) -> int | None:
    """Say which links of the conversation are broken. Exits with 13 if any is."""

    def code(report: MemoryTranscriptRepairReport) -> int | None:
        return EXIT_DAMAGE if report.fail_closed else None

    return answer_request(
        MemoryTranscriptRepairRequest(scope=scope_of(conversation)), tables_common.show_links, code=code
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


@page_command("recall")
@click.argument("query")
@limit_option("How many memories at most.", most=limits.RECALL_MAX, usual=limits.RECALL_DEFAULT)
@click.option("--max-tokens", type=int, metavar="N", help="No more than N tokens of text.")
@click.option("--explain", is_flag=True, help="Show the signals behind each score, and the first that were left out.")
@click.option(
    "--neighbours",
    type=click.IntRange(0, limits.RECALL_NEIGHBOURS),
    default=0,
    metavar="N",
    help="Also show the N messages before and after each hit.",
)
@click.option("--why-not", "why_not", multiple=True, metavar="ID", help="Say why the memory ID is not among them.")
@choice_option("--extent", RecallExtent.LIMIT, "How many hits: as the limit says, or all that the question needs.")
@choice_option("--diversity", HitDiversity.AUTO, "Whether to spread over conversations.")
@click.option("--min-score", type=click.FloatRange(0.0, 1.0), default=0.0, help="Only hits of this score at least.")
@click.option("--where", metavar="JSON", help='Conditions on metadata, such as {"team": "red", "size": {"gte": 3}}.')
@click.option("--cursor", metavar="CURSOR", help="The next page, by the cursor of the page before it.")
@private_option
@filter_options
@common_options
def recall_command(*, explain: bool, where: str | None, filters: RecallFilters, **asked: Any) -> int | None:
    """Find what answers QUERY, best first."""
    if where is not None:
        filters = filters.model_copy(update={"where": where_from(_filter_conditions(where))})
    return answer_request(
        MemoryRecallRequest(filters=filters, **asked), partial(tables_common.show_recall, explain=explain)
    )


@page_command("project")
@click.argument("query")
@size_option(limits.PROJECTION_CHARS_DEFAULT, "Size of the block.")
@choice_option("--pressure", MemoryPressure.NORMAL, "How full the context window is: a fuller one, a smaller block.")
@private_option
@filter_options
@common_options
def project_command(*, include_private: bool, **asked: Any) -> int | None:
    """Show the block that a model would see for QUERY, and how its budget was used.

    The report's miss_reason says why a block is empty; if nothing fits into it, standard error says so too.
    """
    private = PrivateContext.ALLOWED if include_private else PrivateContext.WITHHELD
    request = MemoryProjectionRequest(private_context=private, **asked)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await session.call(request)
        out.report(report, tables_common.show_projection)
        if report.miss_reason is MissReason.NO_BUDGET:
            out.hint(f"nothing fits into a block of {report.budget} characters: raise --max-chars")

    return run_work(work)


def _filter_conditions(text: str) -> Mapping[str, Any]:
    conditions = strict_json.parse_json(text.encode())
    if not isinstance(conditions, dict):
        raise InvalidInput(field="--where", problem="is not a JSON object")
    return conditions


NOT_FOUND = 3


@page_command("forget")
@click.argument("memories", nargs=-1, required=True)
@click.option("--undo", is_flag=True, help="Bring them back.")
@reason_option()
@dry_run_option()
@common_options
def forget_command(*, memories: tuple[str, ...], undo: bool, reason: str, dry_run: bool) -> int | None:
    """Hide the memories with these ids from recall and projection; evidence and history stay."""
    return _answer_control(MemoryForgetRequest(ids=memories, undo=undo, reason=reason, dry_run=dry_run))


@page_command("correct")
@click.argument("memory")
@click.argument("text")
@reason_option()
@dry_run_option()
@common_options
def correct_command(*, memory: str, text: str, reason: str, dry_run: bool) -> int | None:
    """Put TEXT in the place of the fact with the id MEMORY; the old word stays in its history."""
    return _answer_control(MemoryCorrectRequest(id=memory, content=text, reason=reason, dry_run=dry_run))


@page_command("erase")
@click.argument("memories", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Erase the whole space.")
@click.option(
    "--origin", metavar="KIND:NAME", help="All that came through one tool, page or upload: `tool:browse`, `page:URL`."
)
@click.option("--token", metavar="TOKEN", help="Of a dry run with --origin: erase what it named, without asking.")
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
    """Remove the memories with these ids, all of one origin, or the whole space, physically. There is no way back."""
    if bool(memories) + everything + (origin is not None) != 1:
        raise click.UsageError("name the memories to erase, or --origin, or --all")
    if token is not None and origin is None:
        raise click.UsageError("--token belongs to --origin")
    if origin is not None:
        return _erase_origin(_named_origin(origin), token=token, yes=yes, reason=reason, dry_run=dry_run)
    space = run_settings().space.value
    if not everything:
        confirm_question(f"Erase {', '.join(memories)} from the space {space!r}, with no way back?", yes=yes or dry_run)
        return _answer_control(MemoryEraseRequest(ids=memories, reason=reason, dry_run=dry_run))
    if not yes and not dry_run and not at_terminal():
        raise click.UsageError("--all erases the whole space: say --yes")
    confirm_question(f"Erase everything in the space {space!r}?", yes=yes or dry_run)
    return _answer_control(MemoryEraseRequest(whole_space=space, reason=reason, dry_run=dry_run))


def _named_origin(said: str) -> OutsideOrigin:
    kind, _, name = said.partition(":")
    if kind not in set(OriginKind) or not name:
        raise click.BadParameter(f"is KIND:NAME, where KIND is {', '.join(OriginKind)}", param_hint="--origin")
    return valid_value(OutsideOrigin, kind=kind, name=name)


def _erase_origin(origin: OutsideOrigin, *, token: str | None, yes: bool, reason: str, dry_run: bool) -> int | None:
    """Name what came through `origin`, ask, and erase it. Without a terminal, `yes` or `token` it is named alone."""
    first = MemoryEraseRequest(origin=origin, token=token, reason=reason, dry_run=dry_run or token is None)

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        report = await session.call(first)
        if not dry_run and token is None and report.decisions and (yes or at_terminal()):
            if not yes:
                out.report(report, tables_common.show_controlled)
            confirm_question("Erase all of this, with no way back?", yes=yes)
            whole = MemoryEraseRequest(origin=origin, token=report.token, reason=reason)
            report = await session.call(whole)
        out.report(report, tables_common.show_controlled)
        return None if report.decisions else NOT_FOUND

    return run_work(work)


def _answer_control(request: MemoryForgetRequest | MemoryCorrectRequest | MemoryEraseRequest) -> int | None:
    def code(report: MemoryControlReport) -> int | None:
        return NOT_FOUND if {each.outcome for each in report.decisions} == {ControlOutcome.NOT_FOUND} else None

    return answer_request(request, tables_common.show_controlled, code=code)
