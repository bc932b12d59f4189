"""Facts at the command line: stated, listed, shown, changed, merged and forgotten, and what is not learned."""

from pathlib import Path
from typing import Any

import click

from elytron_cli.input.files import read_value, valid
from elytron_cli.input.options import (
    Group,
    OneOf,
    asking,
    choosing,
    command,
    common,
    dated,
    disclosing,
    dry,
    in_conversation,
    limited,
    paged,
    reasoned,
    told,
)
from elytron_cli.runner import answer, run, scope_of, storing
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import planes
from elytron_cli.tables import planes as tables_facts
from elytron_cli.terminal.confirmation import at_terminal, confirm
from elytron_cli.terminal.output import Output
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import (
    CandidateListRequest,
    CandidateResolveReport,
    CandidateResolveRequest,
    CandidatesWrite,
    FactAction,
    FactChangeRequest,
    FactDetailRequest,
    FactDraft,
    FactForgetReport,
    FactForgetRequest,
    FactListRequest,
    LearningRequest,
    MemoryMergeRequest,
    ProfileRequest,
    ProfileWording,
    Resolution,
)
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest
from elytron_core.planes.candidates import CandidateState, Target
from elytron_core.planes.facts import Authority, Kind, LearningAction, Privacy, Reach, State
from elytron_store import WhenMissing

_KINDS = click.option("--kind", "kinds", multiple=True, type=OneOf(Kind), help="Of which kind.")
_VERSION = click.option(
    "--expect",
    "expected_version",
    metavar="VERSION",
    help="Only if this is still its version, as `facts show` shows it.",
)


@click.group("facts", cls=Group)
@common
def facts() -> None:
    """State facts, read and change them, forget them by query, and say what is not to be learned."""


@facts.command("add")
@click.argument("topic")
@click.argument("content")
@choosing("--kind", Kind.FACT, "What it is about.")
@choosing("--authority", Authority.OPERATOR, "Who vouches for it.")
@dated("--at", "When it was observed, in ISO 8601; default: now.")
@click.option("--citation", "citations", multiple=True, metavar="ID", help="A message it rests on; may be repeated.")
@dry("Only say what would be decided.")
@common
def add(*, kind: Kind, at: Instant | None, dry_run: bool, **asked: Any) -> int | None:
    """Propose CONTENT as the current fact on TOPIC; admission judges it, and says why it refuses one."""
    draft = valid(FactDraft, fact_kind=kind, observed_at=at, **asked)
    request = MemoryWriteRequest(scope=scope_of(None), write=LongTermExtraction(facts=(draft,)), dry_run=dry_run)
    return answer(request, tables_common.written, when_missing=storing(dry_run=dry_run))


@facts.command("list")
@click.argument("query", default="")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=OneOf(State),
    help="In which state, at any time; may be repeated. Default: those that hold now.",
)
@_KINDS
@disclosing
@paged("How many facts to show at most.")
@common
def list_facts(*, states: tuple[State, ...], **asked: Any) -> int | None:
    """Show the facts that hold every word of QUERY, with what they are worth, and what is not learned."""
    return answer(FactListRequest(states=states or None, **asked), tables_facts.fact_table)


@facts.command("show")
@click.argument("fact")
@disclosing
@common
def show(*, fact: str, include_private: bool) -> int | None:
    """Show the fact with the id FACT in full, in any state."""
    return answer(FactDetailRequest(id=fact, include_private=include_private), tables_facts.fact_details)


@facts.command("correct")
@click.argument("fact")
@click.argument("text")
@_VERSION
@reasoned()
@dry()
@common
def correct(*, fact: str, text: str, **asked: Any) -> int | None:
    """Put TEXT in the place of the fact with the id FACT, which was wrong; history stays."""
    return _change(id=fact, action=FactAction.CORRECT, content=text, **asked)


@facts.command("change")
@click.argument("fact")
@click.argument("action", type=OneOf(FactAction))
@click.option("--content", metavar="TEXT", help="For correct and supersede: what takes its place.")
@dated("--at", "For supersede and invalidate: since when, in ISO 8601; now without it.")
@click.option("--privacy", type=OneOf(Privacy), help="For change_privacy.")
@click.option("--reach", type=OneOf(Reach), help="For change_scope.")
@in_conversation
@_VERSION
@reasoned()
@dry()
@common
def change(*, fact: str, conversation: str | None, **asked: Any) -> int | None:
    """Correct, supersede, delete, mark stale or invalidate a fact, or change its privacy or scope."""
    channel = told(click.get_current_context()).get("channel")
    where = {name: value for name, value in (("conversation", conversation), ("channel", channel)) if value}
    return _change(id=fact, scope=scope_of(None).model_copy(update=where) if where else None, **asked)


def _change(**asked: Any) -> int | None:
    return answer(FactChangeRequest(**asked), tables_facts.changed)


@facts.command("merge")
@limited("How many pairs to fold at most.", most=limits.WRITES_PER_REQUEST)
@click.option("--undo", multiple=True, metavar="FACT", help="Bring this folded fact back instead; may be repeated.")
@dry()
@common
def merge(**asked: Any) -> int | None:
    """Fold each fact that says nearly what another does into the surer of the two; history and citations stay."""
    return answer(MemoryMergeRequest(**asked), planes.facts_merged)


@facts.command("forget")
@click.argument("query")
@_KINDS
@disclosing
@click.option("--token", metavar="TOKEN", help="Of a dry run: forget what it named, without asking.")
@asking
@reasoned()
@dry()
@common
def forget(*, token: str | None, yes: bool, dry_run: bool, **asked: Any) -> int | None:
    """Forget every fact that holds each word of QUERY; it is named first, and not learned again until allowed."""
    first = FactForgetRequest(**asked, token=token, dry_run=dry_run or token is None)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(first, FactForgetReport)
        if not dry_run and token is None and report.items and (yes or at_terminal()):
            if not yes:
                out.report(report, tables_facts.forgotten)
            confirm(f"Forget these {len(report.items)} facts?", yes=yes)
            report = await session.call(FactForgetRequest(**asked, token=report.token), FactForgetReport)
        out.report(report, tables_facts.forgotten)

    return run(work)


def _learning(action: LearningAction, about: str, *, needs_topic: bool) -> None:
    """Add the command that does `action`."""

    @facts.command(action.value, help=about)
    @click.argument("topic", required=needs_topic)
    @reasoned()
    @dry()
    @common
    def learn(**asked: Any) -> int | None:
        return answer(LearningRequest(action=action, **asked), tables_facts.learned)


_learning(LearningAction.PAUSE, "Learn nothing, or not about TOPIC, until resumed.", needs_topic=False)
_learning(LearningAction.RESUME, "Learn again what was paused.", needs_topic=False)
_learning(LearningAction.SUPPRESS, "Learn nothing about TOPIC until it is allowed.", needs_topic=True)
_learning(LearningAction.ALLOW, "Learn about TOPIC again, also what was forgotten of it.", needs_topic=True)


@command("profile")
@click.argument("person", default="")
@dated("--as-of", "What held at this time, in ISO 8601.")
@dated("--known-at", "What was believed at this time.")
@click.option("--written", is_flag=True, help="Have the language model word it; each sentence cites its facts.")
@disclosing
@limited("How many facts to show at most.", most=limits.PROFILE_LINES_MAX, usual=limits.PROFILE_LINES)
@common
def profile(*, written: bool, **asked: Any) -> int | None:
    """Show what is known of PERSON, grouped and cited; without a name, of the owner of the space."""
    wording = ProfileWording.MODEL if written else ProfileWording.RULES
    return answer(ProfileRequest(wording=wording, **asked), tables_facts.profiled)


REFUSED = 2
_REASON = reasoned("Why; it is kept.")
_DRY_RUN = dry("Only say what would become of it.")


@click.group("candidates", cls=Group)
@common
def candidates() -> None:
    """See proposed beliefs that wait, and decide on them."""


@candidates.command("list")
@click.option(
    "--state", "states", multiple=True, type=OneOf(CandidateState), help="Only these; without, those that wait."
)
@click.option("--target", "targets", multiple=True, type=OneOf(Target), help="Only for that plane; may be repeated.")
@paged("How many.")
@disclosing
@common
def list_candidates(**asked: Any) -> int | None:
    """List candidates, oldest first."""
    if not asked["states"]:
        del asked["states"]
    return answer(CandidateListRequest(**asked), planes.candidates_listed)


@candidates.command("propose")
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common
def propose(*, file: Path, conversation: str | None) -> int | None:
    """Propose the beliefs in FILE (JSON); rules judge them, and what they do not decide waits."""
    request = MemoryWriteRequest(scope=scope_of(conversation), write=read_value(CandidatesWrite, file))
    return answer(request, tables_common.written, when_missing=WhenMissing.MAKE)


@candidates.command("accept")
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common
def accept(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Make the candidate with the id CANDIDATE a belief, if the merge guards let it."""
    return _resolve(candidate, Resolution.ACCEPT, reason, dry_run=dry_run)


@candidates.command("reject")
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common
def reject(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Turn the candidate with the id CANDIDATE down; the same one is not taken up again."""
    return _resolve(candidate, Resolution.REJECT, reason, dry_run=dry_run)


def _resolve(candidate: str, resolution: Resolution, reason: str, *, dry_run: bool) -> int | None:
    def code(report: CandidateResolveReport) -> int | None:
        return None if report.changed or dry_run else REFUSED

    request = CandidateResolveRequest(id=candidate, resolution=resolution, reason=reason, dry_run=dry_run)
    return answer(request, planes.candidate_resolved, code=code)
