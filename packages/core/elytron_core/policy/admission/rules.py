"""Admission: which proposed facts and skills become beliefs, and why not.

A judgement uses no model, clock or store; everything it needs is passed in. Merge guards stand between a draft and the
current fact of its slot: privacy never changes, an older observation never replaces a newer one, and a weaker source
never replaces a stronger one. A draft that repeats the fact overwrites nothing, so only the privacy guard applies,
unless it has another tier or comes after the fact's tier expired; then it replaces the fact. A deletion does not change
privacy, so only the other two guards apply. A deleted fact is not learned again from an observation made before the
deletion.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from elytron_core import limits
from elytron_core.clock import Instant, order_time
from elytron_core.contracts import transcript as contracts_write
from elytron_core.contracts.continuity import EdgeDraft, SubjectDraft
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import LongTermExtraction, ProcedureSource, TranscriptWrite, TurnDraft
from elytron_core.evidence import EvidenceAuthority
from elytron_core.model import Value
from elytron_core.planes import facts, transcript
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.facts import FactAuthority, FactOperation, fact_holds, replaceable_versions
from elytron_core.planes.subjects import SoulSurface, SubjectKind, SubjectLifecycle
from elytron_core.text import similarity

EMPTY: Final = "the procedure is empty"
RAW: Final = "the procedure is a raw payload or log: write what to do, not what was printed"
WEAK: Final = "the procedure has no step: write what to do, one step per line"

RAW_SHARE: Final = 0.5
"""From this share of raw lines on, a text is a log."""

_ORDER_WORDS = """
add adjust aim align allow answer apply archive arrange ask assign attach avoid bake boil book bring build call
cancel change charge check choose clean clear click close collect combine commit compare configure confirm
connect consider convert copy count create cut delete deploy descale describe disable do document download drain
draw drop dry edit empty enable ensure enter escalate escape examine export fetch file fill find fix flush fold
follow format gather generate get give go group handle heat hold identify ignore import include increase inform
inspect install invoke isolate keep launch lead leave let limit list listen load lock log look lower make mark
measure merge migrate mix monitor mount move mute name note notify offer open order pack parse pass paste pause
phone pick place plan plug pour prefer prepare present press prevent print pull push put raise read rebase reboot
record reduce refer refresh reject release reload remind remove rename repeat replace reply report request reset
resolve restart restore retry return reuse review rinse roll rotate run save say scale scan schedule scroll
search select send set share show shut sign skip soak sort split start state stay stir stop store submit suggest
switch sync tag take talk tell test thank treat try turn type unlock unplug update upgrade upload use validate
verify visit wait walk warm warn wash watch wipe work wrap write
"""
ORDERS: Final = frozenset(_ORDER_WORDS.split())
"""Verbs that begin an instruction."""

_LOG_LINE = re.compile(
    r"\s*+(?:"
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d"  # 2025-03-02T14:05
    r"|\[?\d\d:\d\d:\d\d\b"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "  # syslog
    r"|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    r"|Traceback \(most recent call last\)"
    r"|File \"[^\"\n]*\", line \d"
    r"|at [\w.$<>/]+\("
    r"|Caused by: "
    r"|[\w.]*(?:Error|Exception)\b(?::|$)"
    r"|\{\".*\}\s*$"  # a JSON line
    r"|\"[^\"\n]*\"\s?:"  # a member of a JSON object
    r"|[\[\]{}(),;\s]++$"
    r")"
)
_MARKUP = re.compile(r"\s*+<(?:\?xml|!doctype|html)\b", re.IGNORECASE)
_FENCE = re.compile(r"\s*+```\w*+\n(.*?)\n?```\s*", re.DOTALL)
_STEP = re.compile(
    r"\s*+(?:[-*+•·]\s|[(\[]?\d{1,3}[.)\]、:：]|step\s\d|第[一二三四五六七八九十\d]{1,3}步)", re.IGNORECASE
)
_OBLIGES = re.compile(
    r"\b(?:then|must|should|shall|always|never|don't|please|first|next|finally|before|after|until|instead|"
    r"whenever|if|when|to)\b"
    r"|[先再请請把将需应應]|然后|然後|接着|最后|最後|必须|必須|不要|まず|次に|ください",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"`[^`\n]+`|^\s*\$ |\s--?[a-z]")
_OPENING = re.compile(r"(?:^|[.!?;:,]\s)\s*+([A-Za-z']+)")


def procedure_flaw(text: str, /) -> str | None:
    """Return why `text` is not a procedure worth storing, or None if it is one."""
    if similarity.is_blank(text):
        return EMPTY
    if is_raw(text):
        return RAW
    lines = [line for line in text.splitlines() if line.strip()]
    return None if len(lines) > 1 or _has_instruction(text) else WEAK


def is_raw(text: str, /) -> bool:
    """Return whether `text` is a payload or a log: machine output, not a person's words about it."""
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and (_is_payload(text) or sum(map(_is_raw_line, lines)) >= RAW_SHARE * len(lines))


def _is_payload(text: str) -> bool:
    fence_match = _FENCE.fullmatch(text)
    body = (fence_match[1] if fence_match else text).strip()
    if _MARKUP.match(body):
        return True
    if not body.startswith(("{", "[")):
        return False
    try:
        json.loads(body)
    # Only a machine nests this deep.
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _is_raw_line(line: str) -> bool:
    return _LOG_LINE.match(line) is not None


def _has_instruction(text: str) -> bool:
    if _STEP.match(text) or _OBLIGES.search(text) or _COMMAND.search(text):
        return True
    return any(match[1].lower() in ORDERS for match in _OPENING.finditer(text))


VOUCHED: Final = frozenset(
    {
        facts.FactAuthority.USER_ASSERTED,
        facts.FactAuthority.OPERATOR,
        facts.FactAuthority.PROGRAM,
        facts.FactAuthority.RUNTIME,
    }
)
"""Authorities that count as high confidence, whatever the draft's confidence."""

SURENESS: Final = {facts.FactConfidence.LOW: 0, facts.FactConfidence.MEDIUM: 1, facts.FactConfidence.HIGH: 2}

SELF_CLAIM: Final = "assistant self-claims are evidence, not facts"
EMPTY_TOPIC: Final = "the topic is empty"
EMPTY_CONTENT: Final = "the content is empty"
VALIDITY_BACKWARDS: Final = "its validity ends before it begins"
PRIVACY_TRANSITION: Final = "a write cannot change the privacy of a fact: use change_fact with change_privacy"
OLDER_OBSERVATION: Final = "it was observed before the current fact"
OLDER_THAN_DELETION: Final = "it was observed before the fact was deleted"
LESS_SURE: Final = "it is less certain than the current fact"
NOTHING_TO_DELETE: Final = "there is no current fact to delete"
EMPTY_SKILL: Final = "the topic or the title is empty"


class FactJudgement(Value):
    """Admission of one draft: the verdict, the action, and the reason unless it is accepted."""

    verdict: AdmissionVerdict
    outcome: contracts_write.WriteOutcome
    reason: str = ""


class SkillJudgement(FactJudgement):
    """The same for a skill. An accepted one is STORED; its writer knows whether it replaces an older revision."""


def effective_confidence(draft: FactDraft, /) -> facts.FactConfidence:
    """Return the confidence that applies to `draft`: high if its authority vouches for it."""
    return _capped_confidence(draft.authority, draft.confidence)


def judge_fact(draft: FactDraft, versions: Sequence[facts.Fact], *, at: Instant) -> FactJudgement:
    """Return the judgement of `draft` given the versions of its slot, oldest first.

    Of those that cannot be replaced only a deletion counts. A draft without a time of observation was observed at `at`.
    """
    if draft.authority is facts.FactAuthority.ASSISTANT_SELF_CLAIM:
        return reject_fact(SELF_CLAIM)
    if similarity.is_blank(draft.topic):
        return reject_fact(EMPTY_TOPIC)
    current_fact = known_version(draft, versions, at=at)
    match draft.operation:
        case FactOperation.DELETE:
            return _judge_delete(draft, current_fact, at=at)
        case FactOperation.UPSERT:
            # A value that came after a deletion is more recent, so only the newest version counts.
            if versions and _is_before_deletion(draft, versions[-1], at=at):
                return reject_fact(OLDER_THAN_DELETION)
            return _judge_upsert(draft, current_fact, at=at)
        case _:
            assert_never(draft.operation)


def known_version(draft: FactDraft, versions: Sequence[facts.Fact], /, *, at: Instant) -> facts.Fact | None:
    """Return the version of a slot to compare `draft` with: the newest one that can be replaced.

    It is one that holds still, though another is to follow it, if the draft says the same of that time.
    """
    replaceable_facts = replaceable_versions(versions, at=at)
    if not replaceable_facts or draft.operation is FactOperation.DELETE:
        return replaceable_facts[0] if replaceable_facts else None
    begin_moment = draft.valid_from if draft.valid_from is not None else observation_time(draft, at=at)
    same_content_facts = (fact for fact in replaceable_facts if says_the_same(draft.content, fact.content))
    return next((fact for fact in same_content_facts if fact_holds(fact, as_of=begin_moment)), replaceable_facts[0])


def judge_skill(write: contracts_write.RuntimeSkillWrite, /) -> SkillJudgement:
    """Return whether `write` is a procedure worth storing: see `procedures.flaw`."""
    has_blank_field = similarity.is_blank(write.topic) or similarity.is_blank(write.title)
    reason = EMPTY_SKILL if has_blank_field else procedure_flaw(write.content)
    if reason is not None:
        return SkillJudgement(
            verdict=AdmissionVerdict.REJECT, outcome=contracts_write.WriteOutcome.REJECTED, reason=reason
        )
    return SkillJudgement(verdict=AdmissionVerdict.ACCEPT, outcome=contracts_write.WriteOutcome.STORED)


def _judge_delete(draft: FactDraft, current_fact: facts.Fact | None, *, at: Instant) -> FactJudgement:
    if current_fact is None:
        return _accept_fact(contracts_write.WriteOutcome.SKIPPED, NOTHING_TO_DELETE)
    refusal = _overwrite_refusal(draft, current_fact, at=at)
    return reject_fact(refusal) if refusal else _accept_fact(contracts_write.WriteOutcome.DELETED)


def _judge_upsert(draft: FactDraft, current_fact: facts.Fact | None, *, at: Instant) -> FactJudgement:
    if similarity.is_blank(draft.content):
        return reject_fact(EMPTY_CONTENT)
    if draft.valid_from is not None and draft.valid_to is not None and draft.valid_to < draft.valid_from:
        return reject_fact(VALIDITY_BACKWARDS)
    if current_fact is None:
        return _accept_fact(contracts_write.WriteOutcome.STORED)
    # Checked before contents are compared, so that a repeat cannot change the privacy either.
    if draft.privacy is not current_fact.privacy:
        return reject_fact(PRIVACY_TRANSITION)
    if says_the_same(draft.content, current_fact.content) and not _is_of_another_time(draft, current_fact, at=at):
        return _accept_fact(contracts_write.WriteOutcome.CONFIRMED)
    refusal = _overwrite_refusal(draft, current_fact, at=at)
    return reject_fact(refusal) if refusal else _accept_fact(contracts_write.WriteOutcome.UPDATED)


def says_the_same(content: str, other_content: str, /) -> bool:
    """Return whether two contents differ only in case, width and white space; signs count ("-5" is not "5")."""
    return similarity.plain_text(content) == similarity.plain_text(other_content)


def may_bound(draft: FactDraft, current_fact: facts.Fact, /, *, at: Instant) -> bool:
    """Return whether a draft with the same content may set the start and end of its validity."""
    return not _overwrite_refusal(draft, current_fact, at=at)


def observation_time(draft: FactDraft, /, *, at: Instant) -> Instant:
    """Return when the draft's statement was observed: as claimed, but not after `at`, when it is recorded."""
    return order_time(draft.observed_at, recorded_at=at)


def end_of(draft: FactDraft, /, *, at: Instant) -> Instant | None:
    """Return when the draft's validity ends: as stated, else by its tier; None if neither says so."""
    return draft.valid_to if draft.valid_to is not None else facts.end_of(draft.tier, observation_time(draft, at=at))


def _is_of_another_time(draft: FactDraft, current_fact: facts.Fact, *, at: Instant) -> bool:
    """Return whether a draft has another tier than the fact, or a time after the fact's end."""
    if draft.tier is None:
        return False
    return draft.tier is not current_fact.tier or (
        current_fact.valid_to is not None and current_fact.valid_to <= observation_time(draft, at=at)
    )


def _is_before_deletion(draft: FactDraft, newest_fact: facts.Fact, *, at: Instant) -> bool:
    if newest_fact.state is not facts.FactState.DELETED:
        return False
    if newest_fact.closed_at is None:
        return False
    gone_at = order_time(newest_fact.gone_at, recorded_at=newest_fact.closed_at, now=at)
    return observation_time(draft, at=at) < gone_at


def _overwrite_refusal(draft: FactDraft, current_fact: facts.Fact, *, at: Instant) -> str:
    if observation_time(draft, at=at) < order_time(
        current_fact.observed_at, recorded_at=current_fact.recorded_at, now=at
    ):
        return OLDER_OBSERVATION
    if (
        SURENESS[effective_confidence(draft)]
        < SURENESS[_capped_confidence(current_fact.authority, current_fact.confidence)]
    ):
        return LESS_SURE
    return ""


def _capped_confidence(authority: facts.FactAuthority, stated_confidence: facts.FactConfidence) -> facts.FactConfidence:
    return facts.FactConfidence.HIGH if authority in VOUCHED else stated_confidence


def _accept_fact(outcome: contracts_write.WriteOutcome, reason: str = "") -> FactJudgement:
    return FactJudgement(verdict=AdmissionVerdict.ACCEPT, outcome=outcome, reason=reason)


def reject_fact(reason: str, /) -> FactJudgement:
    """Return a rejection with its reason."""
    return FactJudgement(verdict=AdmissionVerdict.REJECT, outcome=contracts_write.WriteOutcome.REJECTED, reason=reason)


CLAIMED = "claimed_authority"
"""Metadata key of an imported turn that names the authorities that its archive claimed."""
_MACHINES = frozenset(
    {
        FactAuthority.OPERATOR,
        FactAuthority.PROGRAM,
        FactAuthority.RUNTIME,
        EvidenceAuthority.PROGRAM_MEMORY_CANONICAL,
        EvidenceAuthority.RUNTIME_OBSERVATION,
    }
)
"""Their authority overrules a user's doubt about what a tool or a page said, so no member may claim it."""


def borrowed_words(request: object, /) -> tuple[str, ...]:
    """Return the authorities in `request` beyond a member's own: of facts, candidates, messages."""
    return tuple(sorted({authority.value for authority in _claimed_authorities(request) if authority in _MACHINES}))


def as_claims(
    write: TranscriptWrite | LongTermExtraction | ProcedureSource, /
) -> TranscriptWrite | LongTermExtraction | ProcedureSource:
    """Return `write` with every authority beyond a member's own lowered to an outsider's, and recorded as a claim."""
    match write:
        case TranscriptWrite():
            return write.model_copy(update={"turns": tuple(map(_admit_turn, write.turns))})
        case LongTermExtraction():
            return write.model_copy(update={"facts": tuple(map(_admit_fact, write.facts))})
        case ProcedureSource():
            return write
        case _:
            assert_never(write)


def _admit_fact(draft: FactDraft) -> FactDraft:
    if draft.authority not in _MACHINES:
        return draft
    return draft.model_copy(update={"authority": FactAuthority.IMPORTED, "claimed": draft.authority})


def _admit_turn(draft: TurnDraft) -> TurnDraft:
    claims = borrowed_words(draft)
    if not claims:
        return draft
    messages = tuple(map(_admit_message, draft.messages))
    # Without room for the note the authority is lowered all the same.
    has_room = len(draft.metadata) < limits.METADATA_KEYS or CLAIMED in draft.metadata
    metadata = {**draft.metadata, CLAIMED: ", ".join(claims)} if has_room else draft.metadata
    return draft.model_copy(update={"messages": messages, "metadata": metadata})


def _admit_message(message: transcript.Message) -> transcript.Message:
    if message.authority not in _MACHINES:
        return message
    return message.model_copy(update={"authority": EvidenceAuthority.EXTERNAL_CONTENT})


def _claimed_authorities(value: object) -> Iterable[FactAuthority | EvidenceAuthority]:
    """Yield every authority in `value`, wherever a request has one."""
    match value:
        case FactAuthority() | EvidenceAuthority():
            yield value
        case Value():
            for name in type(value).model_fields:
                # The claim of an archive is stored as such and gives no authority.
                if name != "claimed":
                    yield from _claimed_authorities(getattr(value, name))
        case tuple():
            for part in value:  # pyright: ignore[reportUnknownVariableType]
                yield from _claimed_authorities(part)  # pyright: ignore[reportUnknownArgumentType]
        case Mapping():
            for part in value.values():  # pyright: ignore[reportUnknownVariableType]
                yield from _claimed_authorities(part)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return


NO_SOUL = "a persona needs a soul binding"
SOUL_OF_ANOTHER_KIND = "only a persona has a soul binding"
SOUL_TAKEN = "that soul is bound to another subject"
ITSELF = "both ends are the same subject"
NO_SUCH_END = "one end of the relationship is not a subject of this space"


def subject_flaw(draft: SubjectDraft, /, *, bound_to: str | None) -> str | None:
    """Return why `draft` may not be stored, None if it may. `bound_to` is the persona that has its soul now."""
    if draft.subject_kind is not SubjectKind.AGENT_PERSONA:
        return SOUL_OF_ANOTHER_KIND if draft.soul is not None else None
    if draft.soul is None:
        return NO_SOUL
    missing_surfaces = [surface.value for surface in SoulSurface if surface not in draft.soul.surfaces]
    if missing_surfaces:
        return f"its soul binding lacks {', '.join(missing_surfaces)}"
    return SOUL_TAKEN if bound_to is not None and bound_to != draft.name and holds_soul(draft) else None


def holds_soul(draft: SubjectDraft, /) -> bool:
    """Return whether a subject holds its soul exclusively; a retired one releases it."""
    return draft.soul is not None and draft.lifecycle is not SubjectLifecycle.RETIRED


def edge_flaw(draft: EdgeDraft, /, *, subjects: frozenset[str]) -> str | None:
    """Return why an edge may not be stored, None if it may; `subjects` are the subjects of the space by name."""
    if draft.source == draft.target:
        return ITSELF
    return None if {draft.source, draft.target} <= subjects else NO_SUCH_END
