"""What an index is given: the recallable pieces of documents, and which document they replace."""

from dataclasses import dataclass

from elytron_core.ports.store import Ref


@dataclass(frozen=True, slots=True)
class Unit:
    """One recallable piece of a document. Times are milliseconds, 0 where unknown or open.

    `ref` and `part` name it. `title` is a topic or keywords, weighted apart from `text`. `thread` is the conversation's
    tag and `order` the place in it; units without a thread have no neighbours. `valid_from` and `valid_to` say when it
    holds in the world, `recorded_at` and `closed_at` when the runtime held it. `vector` is a model's id and its
    embedding as little-endian float32.
    """

    ref: Ref
    part: int
    plane: str
    text: str
    title: str = ""
    speaker: str = ""
    role: str = ""
    thread: str = ""
    order: int = 0
    at: int = 0
    scope: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    valid_from: int = 0
    valid_to: int = 0
    recorded_at: int = 0
    closed_at: int = 0
    trust: int = 0
    vector: tuple[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """All units that the document `ref` now has; none where it is gone."""

    ref: Ref
    units: tuple[Unit, ...] = ()
