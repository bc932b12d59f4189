"""The space's own record: made with its first write, read before every other."""

from functools import cached_property

from elytron_core import canonical
from elytron_core.clock import Instant
from elytron_core.ids import ConversationTag, SkillId
from elytron_core.model import Value
from elytron_core.planes import long_term, procedural, transcript
from elytron_core.scope import ConversationKey

SPACE = "space"
COLLECTIONS = (
    SPACE,
    transcript.CONVERSATIONS,
    transcript.TURNS,
    transcript.TURN_NAMES,
    long_term.FACTS,
    long_term.SLOTS,
    procedural.SKILLS,
)
"""Every collection of a space: what exports, fingerprints and erasures walk."""
KEY = "0"
TAG_DIGITS = 24
TAGS_KEPT = 1_000


class SpaceRecord(Value):
    """`secret` keys every digest and look-up tag of the space, so that stored names and digests tell nothing."""

    secret: str
    created_at: Instant

    @cached_property
    def _key(self) -> bytes:
        return bytes.fromhex(self.secret)

    def tag(self, purpose: str, /, *parts: str) -> str:
        """Return the keyed tag of `parts` for `purpose`: hex digits."""
        return canonical.tag(self._key, purpose, *parts, size=TAG_DIGITS)

    @cached_property
    def _conversations(self) -> dict[ConversationKey, ConversationTag]:
        """The tags made so far; each write of a conversation asks for its own."""
        return {}

    def conversation_tag(self, key: ConversationKey, /) -> ConversationTag:
        known = self._conversations.get(key)
        if known is None:
            if len(self._conversations) >= TAGS_KEPT:
                self._conversations.clear()
            known = self._conversations[key] = ConversationTag(self.tag("conversation", *key))
        return known

    def turn_name_tag(self, key: ConversationKey, host_id: str, /) -> str:
        return self.tag("turn", *key, host_id)

    def slot_tag(self, kind: long_term.Kind, topic: str, /) -> str:
        return self.tag("slot", kind.value, long_term.topic_key(topic))

    def skill_tag(self, name: str, /) -> SkillId:
        return SkillId(self.tag("skill", name))

    def digest(self, body: bytes, /) -> str:
        """Return the keyed digest of a document's body, as journals may show it."""
        return canonical.keyed_digest(self._key, body)
