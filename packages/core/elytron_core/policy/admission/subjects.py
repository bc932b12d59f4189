"""Subjects: which may be kept. A persona has its own soul, whole; no other subject has one."""

from elytron_core.contracts.planes import EdgeDraft, SubjectDraft
from elytron_core.planes.knowledge.soul import Surface
from elytron_core.planes.knowledge.subjects import SubjectKind, SubjectLifecycle

NO_SOUL = "a persona needs a soul binding"
SOUL_OF_ANOTHER_KIND = "only a persona has a soul binding"
SOUL_TAKEN = "that soul is bound to another subject"
ITSELF = "both ends are the same subject"
NO_SUCH_END = "one of its ends is no subject of this space"


def flaw(draft: SubjectDraft, /, *, bound_to: str | None) -> str | None:
    """Return why `draft` may not be stored, None if it may. `bound_to` is the persona that has its soul now."""
    if draft.subject_kind is not SubjectKind.AGENT_PERSONA:
        return SOUL_OF_ANOTHER_KIND if draft.soul is not None else None
    if draft.soul is None:
        return NO_SOUL
    missing = [surface.value for surface in Surface if surface not in draft.soul.surfaces]
    if missing:
        return f"its soul binding lacks {', '.join(missing)}"
    return SOUL_TAKEN if bound_to is not None and bound_to != draft.name and holds_soul(draft) else None


def holds_soul(draft: SubjectDraft, /) -> bool:
    """Return whether a subject keeps its soul to itself; a retired one releases it."""
    return draft.soul is not None and draft.lifecycle is not SubjectLifecycle.RETIRED


def edge_flaw(draft: EdgeDraft, /, *, known: frozenset[str]) -> str | None:
    """Return why an edge may not be stored, None if it may; `known` are the subjects of the space by name."""
    if draft.source == draft.target:
        return ITSELF
    return None if {draft.source, draft.target} <= known else NO_SUCH_END
