"""The space's own record: made with its first write, read before every other."""

import hashlib
from functools import cached_property
from typing import NamedTuple

from elytron_core import canonical
from elytron_core.clock import Instant
from elytron_core.ids import ConversationTag, SkillId
from elytron_core.model import Value
from elytron_core.planes import derived_refs, embedding, tools
from elytron_core.planes.admin import audit, gateway, jobs
from elytron_core.planes.conversation import attributes, candidates, continuity, execution, summaries, transcript
from elytron_core.planes.knowledge import garden, learning_rules, long_term, notes, procedural, records, subjects
from elytron_core.scope import ConversationKey

SPACE = "space"


class Collection(NamedTuple):
    """One collection of a space, and what follows from its name alone."""

    name: str
    plane: str = ""
    """The plane that events name; empty if that is the name of the collection."""
    beside: bool = False
    """True if it lists or looks up other documents: it may change without a journal entry."""
    by_conversation: bool = False
    """True if its keys begin with the tag of a conversation."""


_DECLARED = (
    Collection(SPACE),
    Collection(transcript.CONVERSATIONS, "transcript", beside=True, by_conversation=True),
    Collection(transcript.TURNS, "transcript", by_conversation=True),
    Collection(transcript.TURN_NAMES, "transcript", beside=True),
    Collection(transcript.CHAT_ALIASES, "transcript", beside=True),
    Collection(attributes.TURN_ATTRIBUTES, "transcript", beside=True),
    Collection(derived_refs.DERIVED_REFS, "transcript", beside=True),
    Collection(audit.AUDIT, beside=True),
    Collection(long_term.FACTS, "long_term"),
    Collection(long_term.SLOTS, "long_term", beside=True),
    Collection(long_term.FACT_USES, "long_term", beside=True),
    Collection(learning_rules.TOMBSTONES, "long_term", beside=True),
    Collection(learning_rules.LEARNING, "long_term"),
    Collection(procedural.SKILLS, "procedural"),
    Collection(tools.REGISTRIES, "tools"),
    Collection(tools.EXPERIENCES, "tools"),
    Collection(embedding.VECTORS, "embedding"),
    Collection(embedding.EMBEDDING, "embedding"),
    Collection(candidates.CANDIDATES, "candidates"),
    Collection(continuity.CAPSULES, "continuity", by_conversation=True),
    Collection(execution.EXECUTION, "continuity"),
    Collection(summaries.SUMMARIES, "continuity", by_conversation=True),
    Collection(notes.NOTES),
    Collection(garden.GARDEN),
    Collection(subjects.SUBJECTS, "subjects"),
    Collection(subjects.SUBJECT_EDGES, "subjects"),
    Collection(subjects.SOUL_BINDINGS, "subjects"),
    Collection(records.RECORDS),
    Collection(records.RUNTIME_RECORDS, "records"),
    *(Collection(name, "gateway") for name in gateway.OF_A_SPACE),
    *(Collection(name, "jobs", beside=name == jobs.QUEUE) for name in jobs.OF_A_SPACE),
)
_PLANES = {each.name: each.plane or each.name for each in _DECLARED}
COLLECTIONS = tuple(each.name for each in _DECLARED)
"""Every collection of a space: what exports, fingerprints and erasures walk."""
BESIDE = frozenset(each.name for each in _DECLARED if each.beside)
OF_A_CONVERSATION = frozenset(each.name for each in _DECLARED if each.by_conversation)
KEY = "0"
TAG_DIGITS = 24


def plane_of(collection: str, /) -> str:
    """Return the plane that a collection belongs to; one that is a plane of its own bears its name."""
    return _PLANES.get(collection, collection)


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

    @cached_property
    def _models(self) -> dict[str, str]:
        """The tags made so far; each recall by vectors asks for one."""
        return {}

    def turn_name_tag(self, key: ConversationKey, host_id: str, /) -> str:
        return self.tag("turn", *key, host_id)

    def alias_tag(self, channel: str, chat: str, /) -> str:
        return self.tag("chat", channel, chat)

    def attribute_tag(self, key: str, part: int | None, /) -> str:
        return self.tag("attribute", key, "" if part is None else str(part))

    def derived_tag(self, plane: str, store_key: str, /) -> str:
        return self.tag("derived", plane, store_key)

    def slot_tag(self, kind: long_term.Kind, topic: str, home: ConversationKey | None = None, /) -> str:
        """Return the tag of a slot; facts that count in one conversation alone have slots of their own."""
        return self.tag("slot", kind.value, long_term.topic_key(topic), *(home or ()))

    def earlier_slot_tags(
        self, kind: long_term.Kind, topic: str, home: ConversationKey | None = None, /
    ) -> tuple[str, ...]:
        """Return the tags that earlier builds may have given the slot."""
        return tuple(self.tag("slot", kind.value, key, *(home or ())) for key in long_term.earlier_topic_keys(topic))

    def skill_tag(self, name: str, /) -> SkillId:
        return SkillId(self.tag("skill", name))

    def registry_tag(self, registry_id: str, /) -> str:
        return self.tag("tool_registry", registry_id)

    def experience_key(self, registry_id: str, tool_id: str, schema: str, task: str, /) -> str:
        tag = self.tag("tool_experience", registry_id, tool_id, schema, task)
        return tools.experience_key(self.registry_tag(registry_id), tag)

    def namespace_key(self, namespace: tuple[str, ...], /) -> str:
        """Return how the keys of a namespace's records begin, those of the namespaces below a first part together."""
        first = self.tag("record first part", namespace[0])[:8]
        return f"{first}.{self.tag('record namespace', *namespace)[:16]}."

    def record_key(self, namespace: tuple[str, ...], key: str, /) -> str:
        return self.namespace_key(namespace) + self.tag("record", *namespace, key)

    def model_tag(self, model: str) -> str:
        known = self._models.get(model)
        if known is None:
            if len(self._models) >= TAGS_KEPT:
                self._models.clear()
            known = self._models[model] = self.tag("model", model)
        return known

    def digest(self, body: bytes, /) -> str:
        """Return the keyed digest of a document's body, as journals may show it."""
        return canonical.keyed_digest(self._key, body)

    def answer_key(self, key: str, request: bytes, /) -> bytes:
        """Return the 32 bytes that seal what a repeat of `request` under an idempotency key is answered."""
        state = canonical.keyed_chain(self._key, b"answer", size=32)
        name = key.encode()
        state.update(len(name).to_bytes(8, "big") + name + request)
        return state.digest()

    def chain(self, purpose: bytes, /, *, size: int) -> "hashlib.blake2b":
        """Return a running keyed digest for `purpose`, `size` bytes long."""
        return canonical.keyed_chain(self._key, purpose, size=size)
