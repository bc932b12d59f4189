"""The space's own record, and every collection that a space has."""

import hashlib
from functools import cached_property
from typing import NamedTuple

from elytron_core import strict_json
from elytron_core.clock import Instant
from elytron_core.ids import ConversationTag, SkillId
from elytron_core.model import Value
from elytron_core.planes import (
    candidates,
    continuity,
    embedding,
    facts,
    jobs,
    records,
    skills,
    subjects,
    tools,
    transcript,
)
from elytron_core.planes.audit_trail import AUDIT
from elytron_core.planes.servers import gateway
from elytron_core.scope import ConversationKey

SPACE = "space"
ERASED_IMPORTS = "erased_imports"


class ErasedImport(Value):
    """Number of equal imported messages that were erased, or whose text was deleted; its key is a keyed tag."""

    count: int = 1


class MemoryPlace(NamedTuple):
    """A document, or one message of a turn."""

    collection: str
    key: str
    part: int | None = None


class UnfinishedErasure(Value):
    """Locations of the memories that a space is erasing now, without any of their content."""

    memories: tuple[MemoryPlace, ...]


class SpaceCollection(NamedTuple):
    """One collection of a space, and what follows from its name."""

    name: str
    plane: str = ""
    """The plane that events name; empty if that is the name of the collection."""
    beside: bool = False
    """True if it lists or looks up other documents: it may change without a journal entry."""
    by_conversation: bool = False
    """True if its keys begin with a conversation's tag."""


_DECLARED = (
    SpaceCollection(SPACE),
    SpaceCollection(transcript.CONVERSATIONS, "transcript", beside=True, by_conversation=True),
    SpaceCollection(transcript.TURNS, "transcript", by_conversation=True),
    SpaceCollection(transcript.TURN_NAMES, "transcript", beside=True),
    SpaceCollection(transcript.CHAT_ALIASES, "transcript", beside=True),
    SpaceCollection(transcript.TURN_ATTRIBUTES, "transcript", beside=True),
    SpaceCollection(transcript.DERIVED_REFS, "transcript", beside=True),
    SpaceCollection(ERASED_IMPORTS, "transcript", beside=True),
    SpaceCollection(AUDIT, beside=True),
    SpaceCollection(facts.FACTS, "long_term"),
    SpaceCollection(facts.SLOTS, "long_term", beside=True),
    SpaceCollection(facts.FACT_USES, "long_term", beside=True),
    SpaceCollection(facts.TOMBSTONES, "long_term", beside=True),
    SpaceCollection(facts.LEARNING, "long_term"),
    SpaceCollection(skills.SKILLS, "procedural"),
    SpaceCollection(tools.REGISTRIES, "tools"),
    SpaceCollection(tools.EXPERIENCES, "tools"),
    SpaceCollection(embedding.VECTORS, "embedding"),
    SpaceCollection(embedding.TAG_LINKS, "embedding", beside=True),
    SpaceCollection(embedding.EMBEDDING, "embedding"),
    SpaceCollection(candidates.CANDIDATES, "candidates"),
    SpaceCollection(continuity.CAPSULES, "continuity", by_conversation=True),
    SpaceCollection(continuity.EXECUTION, "continuity"),
    SpaceCollection(continuity.SUMMARIES, "continuity", by_conversation=True),
    SpaceCollection(continuity.NOTES),
    SpaceCollection(continuity.GARDEN),
    SpaceCollection(subjects.SUBJECTS, "subjects"),
    SpaceCollection(subjects.SUBJECT_EDGES, "subjects"),
    SpaceCollection(subjects.SOUL_BINDINGS, "subjects"),
    SpaceCollection(records.RECORDS),
    SpaceCollection(records.RUNTIME_RECORDS, "records"),
    *(SpaceCollection(name, "gateway") for name in gateway.OF_A_SPACE),
    *(SpaceCollection(name, "jobs", beside=name in jobs.WITHOUT_ENTRY) for name in jobs.OF_A_SPACE),
)
_PLANES = {each.name: each.plane or each.name for each in _DECLARED}
COLLECTIONS = tuple(each.name for each in _DECLARED)
"""Every collection of a space: what exports, fingerprints and erasures walk."""
BESIDE = frozenset(each.name for each in _DECLARED if each.beside)
OF_A_CONVERSATION = frozenset(each.name for each in _DECLARED if each.by_conversation)
KEY = "0"
TAG_DIGITS = 24


def plane_of(collection: str, /) -> str:
    """Return the plane of a collection; a collection that is its own plane has the same name."""
    return _PLANES.get(collection, collection)


TAGS_KEPT = 1_000


class SpaceRecord(Value):
    """A space's `secret`, which keys every digest and lookup tag, so that stored names and digests reveal nothing."""

    secret: str
    created_at: Instant

    @cached_property
    def _key(self) -> bytes:
        return bytes.fromhex(self.secret)

    def tag(self, purpose: str, /, *parts: str) -> str:
        """Return the keyed tag of `parts` for `purpose` in hex digits."""
        return strict_json.keyed_tag(self._key, purpose, *parts, size=TAG_DIGITS)

    @cached_property
    def _conversations(self) -> dict[ConversationKey, ConversationTag]:
        """Cache of conversation tags, because each write of a conversation needs its own."""
        return {}

    def conversation_tag(self, key: ConversationKey, /) -> ConversationTag:
        tag = self._conversations.get(key)
        if tag is None:
            # Cleared whole: that bounds memory, and a tag is cheap to recompute.
            if len(self._conversations) >= TAGS_KEPT:
                self._conversations.clear()
            tag = self._conversations[key] = ConversationTag(self.tag("conversation", *key))
        return tag

    @cached_property
    def _tags(self) -> dict[tuple[str, ...], str]:
        """Cache of frequently used tags: models of vectors, namespaces of records."""
        return {}

    def _known_tag(self, purpose: str, /, *parts: str) -> str:
        tag = self._tags.get((purpose, *parts))
        if tag is None:
            if len(self._tags) >= TAGS_KEPT:
                self._tags.clear()
            tag = self._tags[purpose, *parts] = self.tag(purpose, *parts)
        return tag

    def turn_name_tag(self, key: ConversationKey, host_id: str, /) -> str:
        return self.tag("turn", *key, host_id)

    def erased_tag(self, name: tuple[str, ...], /) -> str:
        """Return the tag of an erased imported message, by one of the names that recognise it."""
        return self.tag("erased import", *name)

    def alias_tag(self, channel: str, chat: str, /) -> str:
        return self.tag("chat", channel, chat)

    def attribute_tag(self, key: str, part: int | None, /) -> str:
        return self.tag("attribute", key, "" if part is None else str(part))

    def derived_tag(self, plane: str, store_key: str, /) -> str:
        return self.tag("derived", plane, store_key)

    def slot_tag(self, kind: facts.FactKind, topic: str, conversation: ConversationKey | None = None, /) -> str:
        """Return the tag of a slot; facts limited to one conversation have slots of their own."""
        return self.tag("slot", kind.value, facts.topic_key(topic), *(conversation or ()))

    def earlier_slot_tags(
        self, kind: facts.FactKind, topic: str, conversation: ConversationKey | None = None, /
    ) -> tuple[str, ...]:
        """Return the tags that earlier builds may have used for the slot."""
        return tuple(
            self.tag("slot", kind.value, key, *(conversation or ())) for key in facts.earlier_topic_keys(topic)
        )

    def skill_tag(self, name: str, /) -> SkillId:
        return SkillId(self.tag("skill", name))

    def registry_tag(self, registry_id: str, /) -> str:
        return self.tag("tool_registry", registry_id)

    def experience_key(self, registry_id: str, tool_id: str, schema: str, task: str, /) -> str:
        tag = self.tag("tool_experience", registry_id, tool_id, schema, task)
        return tools.experience_key(self.registry_tag(registry_id), tag)

    def namespace_key(self, namespace: tuple[str, ...], /) -> str:
        """Return the key prefix of a namespace's records; namespaces with the same first part are adjacent."""
        # The first part begins the key, so that one scan finds all namespaces below it.
        first_part_tag = self._known_tag("record first part", namespace[0])[:8]
        return f"{first_part_tag}.{self._known_tag('record namespace', *namespace)[:16]}."

    def record_key(self, namespace: tuple[str, ...], key: str, /) -> str:
        return self.namespace_key(namespace) + self.tag("record", *namespace, key)

    def model_tag(self, model: str) -> str:
        return self._known_tag("model", model)

    def digest(self, body: bytes, /) -> str:
        """Return the keyed digest of a document's body for the journal."""
        return strict_json.keyed_digest(self._key, body)

    def answer_key(self, key: str, request: bytes, /) -> bytes:
        """Return the 32 bytes that seal the stored answer to `request` under an idempotency key."""
        running_digest = strict_json.keyed_chain(self._key, b"answer", size=32)
        key_bytes = key.encode()
        # The key's length precedes it, so that no other key and request give the same bytes.
        running_digest.update(len(key_bytes).to_bytes(8, "big") + key_bytes + request)
        return running_digest.digest()

    def chain(self, purpose: bytes, /, *, size: int) -> "hashlib.blake2b":
        """Return a running keyed digest of `size` bytes for `purpose`."""
        return strict_json.keyed_chain(self._key, purpose, size=size)
