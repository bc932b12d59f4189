"""What a profile's hard limits do to a call: texts beyond them are refused whole, blocks are built smaller."""

from elytron_core.contracts.scoped import Clip, ClipReason
from elytron_core.contracts.writing import LongTermExtraction, Procedural, TranscriptWrite
from elytron_core.errors import LimitExceeded
from elytron_core.model import Value
from elytron_core.planes.profiles import Profile


def require_within(profile: Profile, write: Value, /) -> None:
    """Raise LimitExceeded for a text longer than the profile takes; evidence is never cut in silence."""
    if profile.capacity is None:
        return
    match write:
        case TranscriptWrite():
            longest = max(len(message.text) for turn in write.turns for message in turn.messages)
        case LongTermExtraction():
            longest = max(len(fact.content) for fact in write.facts)
        case Procedural():
            longest = max(len(skill.content) for skill in write.writes)
        case _:
            return
    most = profile.budget.source_chars
    if longest > most:
        raise LimitExceeded(what=f"characters of one text in profile {profile.name.value}", limit=most, found=longest)


def rendered_chars(profile: Profile, asked: int, /) -> tuple[int, tuple[Clip, ...]]:
    """Return how many characters a block may have, and what the profile cut from what was asked."""
    most = min(asked, profile.budget.render_chars)
    clip = Clip(what="system_max_len", reason=ClipReason.PROFILE, limit=most, dropped=asked - most)
    return most, (clip,) if most < asked else ()
