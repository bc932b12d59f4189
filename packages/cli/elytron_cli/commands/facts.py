"""Commands that state, list, change, merge and forget facts, and control what is learned."""

from pathlib import Path
from typing import Any

import click

from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    choice_option,
    common_options,
    dry_run_option,
    global_options,
    in_conversation,
    limit_option,
    page_command,
    page_options,
    private_option,
    reason_option,
    time_option,
    yes_option,
)
from elytron_cli.input.values import read_value, valid_value
from elytron_cli.session import CommandSession, answer_request, run_work, scope_of, storing_missing
from elytron_cli.tables import hits as tables_hits
from elytron_cli.tables import planes
from elytron_cli.tables import planes as tables_facts
from elytron_cli.terminal.output import CommandOutput, at_terminal, confirm_question
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import (
    CandidateListRequest,
    CandidateResolution,
    CandidateResolveReport,
    CandidateResolveRequest,
    CandidatesWrite,
    FactAction,
    FactChangeRequest,
    FactDetailRequest,
    FactDraft,
    FactForgetRequest,
    FactListRequest,
    LearningRequest,
    MemoryMergeRequest,
    ProfileRequest,
    ProfileWording,
)
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest
from elytron_core.planes.candidates import CandidateState, CandidateTarget
from elytron_core.planes.facts import FactAuthority, FactKind, FactPrivacy, FactReach, FactState, LearningAction
from elytron_store import WhenMissing

_KINDS = click.option("--kind", "kinds", multiple=True, type=OneOf(FactKind), help="Kind of fact to include.")
_VERSION = click.option(
    "--expect",
    "expected_version",
    metavar="VERSION",
    help="Expected version, as `facts show` prints it; the change is refused for any other.",
)


@click.group("facts", cls=PageGroup)
@common_options
def facts_group() -> None:
    """Add, read, change and forget facts, and choose what is never learned."""


@facts_group.command("add")
@click.argument("topic")
@click.argument("content")
@choice_option("--kind", FactKind.FACT, "Kind of the fact.")
@choice_option("--authority", FactAuthority.OPERATOR, "Authority that vouches for it.")
@time_option("--at", "Time of the observation, as ISO 8601 or in words. [default: now]")
@click.option("--citation", "citations", multiple=True, metavar="ID", help="Message that supports it.")
@dry_run_option("Show the decision without storing the fact.")
@common_options
def add_command(*, kind: FactKind, at: Instant | None, dry_run: bool, **options: Any) -> int | None:
    """Propose CONTENT as the current fact on TOPIC; an admission policy accepts it or gives a reason."""
    draft = valid_value(FactDraft, fact_kind=kind, observed_at=at, **options)
    request = MemoryWriteRequest(scope=scope_of(None), write=LongTermExtraction(facts=(draft,)), dry_run=dry_run)
    return answer_request(request, tables_hits.show_written, when_missing=storing_missing(dry_run=dry_run))


@facts_group.command("list")
@click.argument("query", default="")
@click.option("--state", "states", multiple=True, type=OneOf(FactState), help="State of the facts. [default: current]")
@_KINDS
@private_option
@page_options("Maximum number of facts.")
@common_options
def list_facts(*, states: tuple[FactState, ...], **options: Any) -> int | None:
    """List the facts that contain every word of QUERY, with their strength, and the topics excluded from learning."""
    return answer_request(FactListRequest(states=states or None, **options), tables_facts.fact_table)


@facts_group.command("show")
@click.argument("fact")
@private_option
@common_options
def show_command(*, fact: str, include_private: bool) -> int | None:
    """Show all details of the fact with the id FACT, in any state."""
    return answer_request(FactDetailRequest(id=fact, include_private=include_private), tables_facts.fact_details)


@facts_group.command("correct")
@click.argument("fact")
@click.argument("text")
@_VERSION
@reason_option()
@dry_run_option()
@common_options
def correct_command(*, fact: str, text: str, **options: Any) -> int | None:
    """Correct the fact with the id FACT to say TEXT; its history is preserved."""
    return _change_fact(id=fact, action=FactAction.CORRECT, content=text, **options)


@facts_group.command("change")
@click.argument("fact")
@click.argument("action", type=OneOf(FactAction))
@click.option("--content", metavar="TEXT", help="Replacement text, for correct and supersede.")
@time_option("--at", "Time of the change, as ISO 8601 or in words, for supersede and invalidate. [default: now]")
@click.option("--privacy", type=OneOf(FactPrivacy), help="New privacy, for change_privacy.")
@click.option("--reach", type=OneOf(FactReach), help="New scope, for change_scope.")
@in_conversation
@_VERSION
@reason_option()
@dry_run_option()
@common_options
def change_command(*, fact: str, conversation: str | None, **options: Any) -> int | None:
    """Correct, supersede, delete, mark stale or invalidate a fact, or change its privacy or scope."""
    channel = global_options(click.get_current_context()).get("channel")
    fact_place = {name: value for name, value in (("conversation", conversation), ("channel", channel)) if value}
    return _change_fact(id=fact, scope=scope_of(None).model_copy(update=fact_place) if fact_place else None, **options)


def _change_fact(**fields: Any) -> int | None:
    return answer_request(FactChangeRequest(**fields), tables_facts.show_changed_fact)


@facts_group.command("merge")
@limit_option("Maximum number of pairs to merge.", most=limits.WRITES_PER_REQUEST)
@click.option("--undo", multiple=True, metavar="FACT", help="Merged fact to restore instead.")
@dry_run_option()
@common_options
def merge_command(**options: Any) -> int | None:
    """Merge nearly identical facts into the more certain one; history and citations are preserved."""
    return answer_request(MemoryMergeRequest(**options), planes.facts_merged)


@facts_group.command("forget")
@click.argument("query")
@_KINDS
@private_option
@click.option("--token", metavar="TOKEN", help="Token of a dry run, to forget its facts without confirmation.")
@yes_option
@reason_option()
@dry_run_option()
@common_options
def forget_command(*, token: str | None, yes: bool, dry_run: bool, **options: Any) -> int | None:
    """List and forget the facts that contain every word of QUERY; they are not learned again until allowed."""
    forget_request = FactForgetRequest(**options, token=token, dry_run=dry_run or token is None)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await session.call(forget_request)
        if not dry_run and token is None and report.items and (yes or at_terminal()):
            if not yes:
                out.report(report, tables_facts.show_forgotten)
            confirm_question(f"Forget these {len(report.items)} facts?", yes=yes)
            report = await session.call(FactForgetRequest(**options, token=report.token))
        out.report(report, tables_facts.show_forgotten)

    return run_work(work)


def _learning_command(action: LearningAction, about: str, *, needs_topic: bool) -> None:
    """Add the command that does `action`."""

    @facts_group.command(action.value, help=about)
    @click.argument("topic", required=needs_topic)
    @reason_option()
    @dry_run_option()
    @common_options
    def learn(**options: Any) -> int | None:
        return answer_request(LearningRequest(action=action, **options), tables_facts.show_learning)


_learning_command(LearningAction.PAUSE, "Pause learning, entirely or about TOPIC.", needs_topic=False)
_learning_command(LearningAction.RESUME, "Resume learning after a pause.", needs_topic=False)
_learning_command(LearningAction.SUPPRESS, "Suppress learning about TOPIC until it is allowed.", needs_topic=True)
_learning_command(LearningAction.ALLOW, "Allow learning about TOPIC again, even if forgotten.", needs_topic=True)


@page_command("profile")
@click.argument("person", default="")
@time_option("--as-of", "Time at which the facts were true, as ISO 8601.")
@time_option("--known-at", "Time at which the facts were believed.")
@click.option(
    "--written", "by_model", is_flag=True, help="Have the language model write it; each sentence cites its facts."
)
@private_option
@limit_option("Maximum number of facts.", most=limits.PROFILE_LINES_MAX, usual=limits.PROFILE_LINES)
@common_options
def profile_command(*, by_model: bool, **options: Any) -> int | None:
    """Show what is known about PERSON, grouped and cited. [default: the owner of the space]"""
    wording = ProfileWording.MODEL if by_model else ProfileWording.RULES
    return answer_request(ProfileRequest(wording=wording, **options), tables_facts.show_profile)


REFUSED = 2
_REASON = reason_option("Reason, recorded with the decision.")
_DRY_RUN = dry_run_option("Show the outcome without changing anything.")


@click.group("candidates", cls=PageGroup)
@common_options
def candidates_group() -> None:
    """Review proposed beliefs that await a decision."""


@candidates_group.command("list")
@click.option(
    "--state", "states", multiple=True, type=OneOf(CandidateState), help="State of the candidates. [default: undecided]"
)
@click.option(
    "--target", "targets", multiple=True, type=OneOf(CandidateTarget), help="Plane that the candidate is for."
)
@page_options("Maximum number of candidates.")
@private_option
@common_options
def list_candidates(**options: Any) -> int | None:
    """List candidates, oldest first."""
    if not options["states"]:
        del options["states"]
    return answer_request(CandidateListRequest(**options), planes.candidates_listed)


@candidates_group.command("propose")
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common_options
def propose_command(*, file: Path, conversation: str | None) -> int | None:
    """Propose the beliefs in FILE (JSON); those that rules cannot decide await a decision."""
    request = MemoryWriteRequest(scope=scope_of(conversation), write=read_value(CandidatesWrite, file))
    return answer_request(request, tables_hits.show_written, when_missing=WhenMissing.MAKE)


@candidates_group.command("accept")
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common_options
def accept_command(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Accept the candidate with the id CANDIDATE as a belief, if the merge guards allow it."""
    return _resolve_candidate(candidate, CandidateResolution.ACCEPT, reason, dry_run=dry_run)


@candidates_group.command("reject")
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common_options
def reject_command(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Reject the candidate with the id CANDIDATE; it will not be proposed again."""
    return _resolve_candidate(candidate, CandidateResolution.REJECT, reason, dry_run=dry_run)


def _resolve_candidate(candidate: str, resolution: CandidateResolution, reason: str, *, dry_run: bool) -> int | None:
    def code(report: CandidateResolveReport) -> int | None:
        return None if report.changed or dry_run else REFUSED

    request = CandidateResolveRequest(id=candidate, resolution=resolution, reason=reason, dry_run=dry_run)
    return answer_request(request, planes.candidate_resolved, code=code)
