"""A person's profile: current facts, selected and grouped by rules, and phrased by a model on request."""

from typing import NamedTuple

from elytron.context import OperationContext
from elytron.jobs.spending_budget import BudgetReached, ModelAsker
from elytron.memories.chat_aliases import meant_conversation
from elytron.memories.lookup import may_disclose
from elytron.recall.filters import fact_passes
from elytron_core import limits
from elytron_core.contracts.facts import (
    ProfileBearing,
    ProfileLine,
    ProfileReport,
    ProfileRequest,
    ProfileWording,
)
from elytron_core.contracts.recall import RecallFilters
from elytron_core.errors import ModelError
from elytron_core.planes.facts import FACTS, Fact, FreshnessHint, fact_freshness
from elytron_core.policy.personal_profile import (
    INSTRUCTION,
    ProfileAnswer,
    check_profile,
    fact_rank,
    groups_of,
    list_facts,
    names_of,
    profile_bearing,
    profile_data,
)
from elytron_core.ports.models import PromptMessage, PromptRole
from elytron_core.scope import Scope
from elytron_core.text import similarity

NO_MODEL, BUDGET_REACHED, NOTHING_BORNE, NOTHING_STANDS = (
    "no_language_model",
    "budget_reached",
    "nothing_borne_by_facts",
    "nothing_stands",
)


class _ChosenFact(NamedTuple):
    fact: Fact
    bearing: ProfileBearing


async def build_profile(ctx: OperationContext, request: ProfileRequest, /) -> ProfileReport:
    """Return the current facts about a person. If they support no sentence of the model, rules write the text."""
    scope = ctx.scope_of(request)
    report = ProfileReport(space=scope.space, person=request.person)
    facts = await _standing_facts(ctx, scope, request)
    visible_facts = [fact for fact in facts if may_disclose(fact, include_private=request.include_private)]
    has_name = not similarity.is_blank(similarity.normalise_text(request.person))
    person_names = names_of(request.person, visible_facts) if has_name else ()
    profile_facts = [
        _ChosenFact(fact, bearing)
        for fact in visible_facts
        if (bearing := profile_bearing(fact, person_names)) is not None
    ]
    profile_facts.sort(key=lambda each: fact_rank(each.fact, each.bearing))
    now = ctx.clock.now()
    groups = groups_of(
        (each.fact.kind, _profile_line(each, fact_freshness(each.fact, now).hint))
        for each in profile_facts[: request.limit]
    )
    report = report.model_copy(
        update={
            "names": person_names,
            "groups": groups,
            "text": list_facts(groups),
            "withheld": sum(profile_bearing(fact, person_names) is not None for fact in facts) - len(profile_facts),
            "left_out": max(0, len(profile_facts) - request.limit),
        }
    )
    return report if request.wording is ProfileWording.RULES else await _written_profile(ctx, scope, report)


async def _standing_facts(ctx: OperationContext, scope: Scope, request: ProfileRequest) -> list[Fact]:
    """Return the facts that hold, and were believed, at the requested times, and apply in the scope's conversation."""
    conversation = await meant_conversation(ctx, scope)
    key = conversation.key if conversation.is_trusted else None
    filters = RecallFilters(as_of=request.as_of, known_at=request.known_at)
    now, last_key = ctx.clock.now(), ""
    matches: list[Fact] = []
    while page := await ctx.store.scan(scope.space, FACTS, after=last_key, limit=limits.SCAN_MAX):
        last_key = page[-1].ref.key
        facts = (Fact.from_bytes(document.body) for document in page)
        matches += [fact for fact in facts if fact.counts_in(key) and fact_passes(fact, filters, now)]
    return matches


async def _written_profile(ctx: OperationContext, scope: Scope, report: ProfileReport) -> ProfileReport:
    if not report.groups:
        return report.model_copy(update={"not_written": NOTHING_STANDS})
    if ctx.models.language is None:
        return report.model_copy(update={"not_written": NO_MODEL})
    profile_lines = [line for group in report.groups for line in group.lines]
    prompt = (
        PromptMessage(PromptRole.SYSTEM, INSTRUCTION),
        PromptMessage(PromptRole.USER, profile_data(report.person, profile_lines)),
    )
    model_asker = ModelAsker(ctx, scope.space, ctx.models.language)
    try:
        profile_answer = await model_asker.structured(prompt, ProfileAnswer, max_tokens=limits.MODEL_ANSWER_TOKENS)
    except BudgetReached:
        return report.model_copy(update={"not_written": BUDGET_REACHED})
    except ModelError as error:
        return report.model_copy(update={"not_written": error.key})
    profile_check = check_profile(profile_answer, profile_lines, " ".join(report.names))
    report = report.model_copy(update={"sentences_dropped": profile_check.dropped})
    if not profile_check.sentences:
        return report.model_copy(update={"not_written": NOTHING_BORNE})
    text = " ".join(sentence.text for sentence in profile_check.sentences)
    return report.model_copy(
        update={"wording": ProfileWording.MODEL, "sentences": profile_check.sentences, "text": text}
    )


def _profile_line(profile_fact: _ChosenFact, hint: FreshnessHint) -> ProfileLine:
    fact = profile_fact.fact
    return ProfileLine(
        id=fact.id,
        topic=fact.topic,
        content=fact.content,
        bearing=profile_fact.bearing,
        confidence=fact.confidence,
        trust=fact.trust,
        privacy=fact.privacy,
        observed_at=fact.observed_at,
        valid_to=fact.valid_to,
        hint=hint,
        evidence=fact.citations,
    )
