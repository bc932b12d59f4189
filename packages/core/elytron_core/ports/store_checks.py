"""Reports of store checks and repairs: damage, losses that repairs could not prevent, and counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId


class DamageKind(StrEnum):
    """Kind of a finding of `check`."""

    DOCUMENT = "document"
    JOURNAL_GAP = "journal_gap"
    JOURNAL_ENTRY = "journal_entry"
    MISSING_DOCUMENT = "missing_document"
    BLOB = "blob"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """One piece of damage, named without its content."""

    damage: DamageKind
    space: SpaceId | None
    what: str
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class StoreLoss:
    """What repairs could not save of one space, up to the latest loss at `at`.

    Each number is the least that was lost: where bytes cannot be read, nobody can say what else they held. `what` names
    them. `space` is None where it is unknown whose they were.
    """

    space: SpaceId | None
    documents: int
    entries: int
    blobs: int
    at: Instant
    what: str

    def plus(self, later_loss: "StoreLoss", /) -> "StoreLoss":
        """Return this loss and `later_loss`, of the same space, combined."""
        causes = dict.fromkeys([*self.what.split("; "), *later_loss.what.split("; ")])
        return StoreLoss(
            self.space,
            self.documents + later_loss.documents,
            self.entries + later_loss.entries,
            self.blobs + later_loss.blobs,
            later_loss.at,
            "; ".join(list(causes)[-_LOSS_PARTS:]),
        )


_LOSS_PARTS = 10
"""Maximum number of items that a loss names, however often a file is damaged."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Report of a check or repair. `ok` if nothing was found."""

    spaces: int
    documents: int
    entries: int
    blobs: int
    problems: tuple[StoreProblem, ...] = ()
    clipped: bool = False
    losses: tuple[StoreLoss, ...] = ()
    """What a repair could not save, per space; it is recorded in the store."""

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(slots=True)
class CheckTally:
    """Counts of a check or repair in progress."""

    spaces: int = 0
    documents: int = 0
    entries: int = 0
    blobs: int = 0

    def report(
        self, problems: Sequence[StoreProblem], /, *, clipped: bool = False, losses: Sequence[StoreLoss] = ()
    ) -> CheckReport:
        """Return the report of these counts, with the first `limits.PROBLEMS_MAX` of `problems`."""
        return CheckReport(
            self.spaces,
            self.documents,
            self.entries,
            self.blobs,
            problems=tuple(problems[: limits.PROBLEMS_MAX]),
            clipped=clipped or len(problems) > limits.PROBLEMS_MAX,
            losses=tuple(losses),
        )
