"""The parent's book: what children attempted, and what was acknowledged before they died."""

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.rigs.traffic import Place, Verb
from elytron_core.errors import StoreFull


class Fate(StrEnum):
    """What must be true of a written item when the store is reopened."""

    TRIED = "tried"
    """Present or absent, but never partial, because nothing was acknowledged."""
    KEPT = "kept"
    FORGETTING = "forgetting"
    FORGOTTEN = "forgotten"
    ERASING = "erasing"
    ERASED = "erased"
    ABSENT = "absent"
    """It was once found to be absent, so it must stay absent until it is written again."""
    LOST = "lost"
    """Missed once. It was counted then, and does not count again."""


@dataclass(slots=True)
class Item:
    """One turn or fact. `group` identifies the items written together with it."""

    token: str
    verb: Verb
    place: Place
    fate: Fate = Fate.TRIED
    id: str | None = None
    is_fresh: bool = True
    """True if no verification has seen it yet."""
    is_refused: bool = False
    """True if its writer was told that nothing was stored."""

    @property
    def group(self) -> str:
        return self.place.token


class Book:
    """All items of one store by token, and everything else that children reported.

    An error whose key is in `tolerates` is an honest answer: its write was attempted. All others are stored in
    `errors`.
    """

    def __init__(self, *, tolerates: frozenset[str] = frozenset()) -> None:
        self.items: dict[str, Item] = {}
        self.acknowledged = 0
        self.errors: list[str] = []
        self._tolerates = tolerates

    def read(self, lines: list[str], /) -> None:
        """Read the lines of one child."""
        for line in lines:
            self._line(line.split(" "))

    def group(self, token: str, /) -> list[Item]:
        """Return the items that were written together with that of `token`."""
        place = self.items[token].place
        return [self.items[part] for part in (place.parts if self.items[token].verb is Verb.TURNS else (token,))]

    def _line(self, words: list[str]) -> None:
        match words:
            case ["try", ("forget" | "erase") as verb, token]:
                self.items[token].fate = Fate.FORGETTING if verb == Verb.FORGET else Fate.ERASING
            case ["did", ("forget" | "erase") as verb, token]:
                self.acknowledged += 1
                self.items[token].fate = Fate.FORGOTTEN if verb == Verb.FORGET else Fate.ERASED
            case ["try", verb, token, space, conversation]:
                place = Place(token, space, conversation)
                for part in _parts(verb, token):
                    self.items.setdefault(part, Item(part, Verb(verb), place))
            case ["did", verb, token, *ids]:
                self.acknowledged += len(ids)
                for part, known in zip(_parts(verb, token), ids, strict=True):
                    self._keep(self.items[part], known)
            case ["err", verb, token, key] if key in self._tolerates:
                if key == StoreFull.key and verb not in {Verb.FORGET, Verb.ERASE, Verb.RECALL}:
                    for item in [self.items[part] for part in _parts(verb, token) if part in self.items]:
                        item.is_refused = True
            case ["err", verb, token, key]:
                self.errors.append(f"{verb} of {token} was answered {key}")
            case _:
                raise AssertionError(f"a child spoke in an unknown way: {words}")

    def _keep(self, item: Item, known: str) -> None:
        if item.id not in {None, known}:
            self.errors.append(f"{item.verb} {item.token} was given two ids")
        item.fate, item.id = Fate.KEPT, known


def _parts(verb: str, token: str) -> tuple[str, ...]:
    return Place(token, "", "").parts if verb == Verb.TURNS else (token,)
