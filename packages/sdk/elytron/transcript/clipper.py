"""Lists of a report cut at their bounds, and what was cut."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from elytron_core.contracts.scope_fields import Clip, ClipReason

T = TypeVar("T")


@dataclass(slots=True)
class Clipper:
    """Cuts by the bounds of one report so far."""

    clips: list[Clip] = field(default_factory=list[Clip])

    def limit(self, what: str, items: Sequence[T], most: int, /) -> tuple[T, ...]:
        """Return as many of `items` as the product's own bound allows."""
        return self._cut(what, items, most, ClipReason.LIMIT)

    def profile(self, what: str, items: Sequence[T], most: int, /) -> tuple[T, ...]:
        """Return as many of `items` as the profile's budget allows."""
        return self._cut(what, items, most, ClipReason.PROFILE)

    @property
    def is_by_profile(self) -> bool:
        return any(clip.reason is ClipReason.PROFILE for clip in self.clips)

    def _cut(self, what: str, items: Sequence[T], most: int, reason: ClipReason) -> tuple[T, ...]:
        if len(items) > most:
            self.clips.append(Clip(what=what, reason=reason, limit=most, dropped=len(items) - most))
        return tuple(items[:most])
