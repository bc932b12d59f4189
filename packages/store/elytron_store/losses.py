"""The record of what repairs could not save, in the form in which engines store it: one for each space."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store_checks import DamageKind, StoreLoss, StoreProblem

_UNREADABLE = "the record of earlier losses"


class LossNote(BaseModel):
    """A recorded loss. After acknowledgement, only `missing` is left of it.

    `missing` is the number of missing documents named by the journal when a repair last counted them: the next repair
    counts only those missing beyond them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    space: SpaceId | None = None
    documents: int = 0
    entries: int = 0
    blobs: int = 0
    at: Instant = Instant(0)
    what: str = ""
    missing: int = 0

    @classmethod
    def read(cls, data: bytes | None, /) -> "LossNote":
        """Return the note in `data`, an empty one for None; a damaged note is itself reported, because it was a
        loss."""
        try:
            return cls() if data is None else cls.model_validate_json(data)
        except ValidationError:
            return cls(what=_UNREADABLE)

    def to_bytes(self) -> bytes:
        return self.model_dump_json(exclude_defaults=True).encode()

    @property
    def loss(self) -> StoreLoss | None:
        """The unacknowledged loss."""
        if not self.what:
            return None
        return StoreLoss(self.space, self.documents, self.entries, self.blobs, self.at, self.what)

    def grown(self, loss: StoreLoss, /, *, missing: int) -> "LossNote":
        """Return the note with a further `loss`, of which `missing` documents are named by the journal."""
        total = loss if self.loss is None else self.loss.plus(loss)
        return LossNote(
            space=loss.space,
            documents=total.documents,
            entries=total.entries,
            blobs=total.blobs,
            at=total.at,
            what=total.what,
            missing=self.missing + missing,
        )

    def acknowledged(self) -> "LossNote":
        """Return what is left of the note after its loss has been acknowledged."""
        return LossNote(space=self.space, missing=self.missing)


def pending_losses(notes: Iterable[bytes], /) -> Sequence[StoreLoss]:
    """Return the unacknowledged losses in stored `notes`."""
    return [loss for data in notes if (loss := LossNote.read(data).loss) is not None]


def quarantined_losses(problems: Sequence[StoreProblem], at: Instant, /) -> Sequence[StoreLoss]:
    """Return the quarantined content of each space, as a loss at `at`."""
    counts = Counter((problem.space, problem.damage) for problem in problems if problem.quarantined)
    return [
        StoreLoss(
            space,
            counts[space, DamageKind.DOCUMENT],
            0,
            counts[space, DamageKind.BLOB],
            at,
            "rows that were damaged",
        )
        for space in sorted({space for space, _ in counts if space is not None})
    ]
