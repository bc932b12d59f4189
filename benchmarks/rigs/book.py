"""The parent's book: what children tried, and what they were told before they died."""

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.rigs.traffic import Place, Verb


class Fate(StrEnum):
    """What must be true of a written thing when the store is opened again."""

    TRIED = "tried"
    """There or not, but whole: nobody was told."""
    KEPT = "kept"
    FORGETTING = "forgetting"
    FORGOTTEN = "forgotten"
    ERASING = "erasing"
    ERASED = "erased"
    ABSENT = "absent"
    """It was looked for once and not there, so it must stay away until it is written again."""
    LOST = "lost"
    """Missed once; counted then, and not again."""


@dataclass(slots=True)
class Item:
    """One turn or fact. `group` is what it was written together with."""

    token: str
    verb: Verb
    place: Place
    fate: Fate = Fate.TRIED
    id: str | None = None
    is_fresh: bool = True
    """Whether no verification has seen it yet."""

    @property
    def group(self) -> str:
        return self.place.token


class Book:
    """All items of one store by token, and what else children told."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.acknowledged = 0
        self.errors: list[str] = []

    def read(self, lines: list[str], /) -> None:
        """Take in what one child told."""
        for line in lines:
            self._line(line.split(" "))

    def group(self, token: str, /) -> list[Item]:
        """Return the items that were written together with `token`'s."""
        place = self.items[token].place
        return [self.items[part] for part in (place.parts if self.items[token].verb is Verb.TURNS else (token,))]

    def _line(self, words: list[str]) -> None:
        match words:
            case ["try", ("add" | "plain" | "turns" | "fact") as verb, token, space, conversation]:
                place = Place(token, space, conversation)
                for part in place.parts if verb == Verb.TURNS else (token,):
                    self.items[part] = Item(part, Verb(verb), place)
            case ["did", ("add" | "plain" | "turns" | "fact") as verb, token, *ids]:
                self.acknowledged += len(ids)
                parts = Place(token, "", "").parts if verb == Verb.TURNS else (token,)
                for part, known in zip(parts, ids, strict=True):
                    self.items[part].fate, self.items[part].id = Fate.KEPT, known
            case ["try", ("forget" | "erase") as verb, token]:
                self.items[token].fate = Fate.FORGETTING if verb == Verb.FORGET else Fate.ERASING
            case ["did", ("forget" | "erase") as verb, token]:
                self.acknowledged += 1
                self.items[token].fate = Fate.FORGOTTEN if verb == Verb.FORGET else Fate.ERASED
            case ["err", verb, token, key]:
                self.errors.append(f"{verb} of {token} was answered {key}")
            case _:
                raise AssertionError(f"a child spoke in an unknown way: {words}")
