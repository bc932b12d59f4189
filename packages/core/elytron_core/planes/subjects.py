"""The plane of subjects: who takes part in a space, and how they are related."""

from enum import StrEnum
from typing import Annotated, Final, NewType

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name

MOUNT_CHARS: Final = 600


class SoulSurface(StrEnum):
    """The eight surfaces of a persona's soul; a binding names the keeper of them all."""

    SELF_MODEL = "self_model"
    CONTINUITY = "continuity"
    INNER_LIFE = "inner_life"
    TEMPERAMENT = "temperament"
    RELATIONSHIPS = "relationships"
    MENTAL_PRIVACY = "mental_privacy"
    VALUES = "values"
    VOICE = "voice"


SUBJECTS = "subjects"
SUBJECT_EDGES = "subject_edges"
SOUL_BINDINGS = "soul_bindings"
SubjectId = NewType("SubjectId", str)
ID_WORD = "subject"

OtherNames = Annotated[tuple[Name, ...], Field(max_length=limits.TAGS)]
MountText = Annotated[str, Field(max_length=MOUNT_CHARS)]


class SubjectKind(StrEnum):
    """Kind of a subject."""

    SYSTEM_GOVERNOR = "system_governor"
    HUMAN_USER = "human_user"
    AGENT_PERSONA = "agent_persona"


class SubjectVisibility(StrEnum):
    """Visibility of a subject."""

    VISIBLE = "visible"
    HIDDEN = "hidden"
    AUDIT_ONLY = "audit_only"


class SubjectLifecycle(StrEnum):
    """State of a subject; only an active one is mounted."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    MIGRATING = "migrating"
    RETIRED = "retired"


class EdgeKind(StrEnum):
    """Relation of one subject to another."""

    GOVERNS = "governs"
    REPRESENTS = "represents"
    COLLABORATES_WITH = "collaborates_with"
    OBSERVES = "observes"


class SubjectMount(Value):
    """Projected parts of the subject that speaks; empty parts are left out."""

    identity: MountText = ""
    relationship: MountText = ""
    situated_now: MountText = ""
    reasoning_basis: MountText = ""
    reply_stance: MountText = ""
    initiative: MountText = ""
    boundary: MountText = ""


class SoulBinding(Value):
    """Soul of a persona: the keeper's id and the surfaces it answers for. A soul is bound to one persona."""

    soul: Name
    surfaces: Annotated[tuple[SoulSurface, ...], Field(min_length=1, max_length=len(SoulSurface))] = tuple(SoulSurface)


class Subject(Value):
    """A person, agent or thing that acts in a space, by its name ("agent:ada").

    `other_names` are its further names, in any script: a query with one refers to the same speaker.
    """

    id: SubjectId
    name: Name
    other_names: OtherNames = ()
    kind: SubjectKind
    visibility: SubjectVisibility = SubjectVisibility.VISIBLE
    lifecycle: SubjectLifecycle = SubjectLifecycle.ACTIVE
    mount: SubjectMount = SubjectMount()
    soul: SoulBinding | None = None
    recorded_at: Instant
    updated_at: Instant


class SubjectEdge(Value):
    """One subject's relation to another, both by name."""

    source: Name
    kind: EdgeKind
    target: Name
    recorded_at: Instant


class BoundSoul(Value):
    """Persona of a soul; there is one document per soul, so that no two can have it."""

    subject: Name
