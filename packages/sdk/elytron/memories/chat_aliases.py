"""Chat aliases: a chat is a per-subject alias of a conversation; one that cannot be trusted names none."""

from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, value_at
from elytron.state.conversation_heads import read_head
from elytron_core.errors import InvalidInput
from elytron_core.planes import transcript
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import (
    AliasTrust,
)
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import ConversationKey, Scope

ALIASED_SUBJECTS: Final = 256
"""Subjects that one chat's alias knows; the one that committed longest ago goes first."""


NO_SUBJECT = "default"
"""The subject of a scope that names no agent."""


@dataclass(frozen=True, slots=True)
class MeantConversation:
    """The conversation of a scope, and the state of its chat."""

    key: ConversationKey
    trust: AliasTrust = AliasTrust.TRUSTED

    @property
    def is_trusted(self) -> bool:
        return self.trust is AliasTrust.TRUSTED

    def within(self, scope: Scope, /) -> Scope:
        """Return `scope` with this conversation, if it may be trusted."""
        return scope.model_copy(update={"conversation": self.key.conversation}) if self.is_trusted else scope


async def meant_conversation(ctx: OperationContext, scope: Scope, /) -> MeantConversation:
    """Return the conversation of `scope`: its own, else its chat's, else the default one.

    A chat that is not tied to a conversation is the conversation of that name.
    """
    if scope.conversation is not None or scope.chat is None:
        return MeantConversation(scope.conversation_key)
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return MeantConversation(scope.conversation_key)
    (document,) = await ctx.store.get(scope.space, (_alias_ref(record, scope.channel, scope.chat),))
    if document is None:
        return MeantConversation(scope.conversation_key)
    try:
        chat_alias = transcript.ChatAlias.model_validate_json(document.body)
    except ValidationError:
        return MeantConversation(scope.conversation_key, AliasTrust.MISMATCHED)
    if (chat_alias.channel, chat_alias.chat) != (scope.channel, scope.chat):
        return MeantConversation(scope.conversation_key, AliasTrust.MISMATCHED)
    conversation = chat_alias.conversations.get(subject_of(scope))
    if conversation is None:
        return MeantConversation(scope.conversation_key, AliasTrust.UNKNOWN_SUBJECT)
    key = ConversationKey(scope.channel, conversation)
    head = await read_head(ctx.store, scope.space, record.conversation_tag(key))
    if head is None or not head[0].turns:
        return MeantConversation(key, AliasTrust.CONVERSATION_GONE)
    return MeantConversation(key)


async def with_last(ctx: OperationContext, scope: Scope, /) -> Scope:
    """Return `scope` with the conversation of the last committed turn, if it names neither one nor a chat."""
    if scope.conversation is not None or scope.chat is not None:
        return scope
    last_conversation = ctx.last_conversations.of(scope)
    record = await ctx.spaces.find(scope.space) if last_conversation is not None else None
    if record is None:
        return scope
    last_scope = scope.model_copy(update={"conversation": last_conversation})
    head = await read_head(ctx.store, scope.space, record.conversation_tag(last_scope.conversation_key))
    return last_scope if head is not None and head[0].turns else scope


async def home_scope(ctx: OperationContext, scope: Scope, /) -> Scope:
    """Return `scope` with the conversation that its writes go to. Raises InvalidInput for another subject's chat."""
    if scope.conversation is not None or scope.chat is None:
        return scope
    conversation = await meant_conversation(ctx, scope)
    match conversation.trust:
        case AliasTrust.TRUSTED | AliasTrust.CONVERSATION_GONE:
            # An erased conversation may start again.
            return scope.model_copy(update={"conversation": conversation.key.conversation})
        case AliasTrust.UNKNOWN_SUBJECT | AliasTrust.MISMATCHED:
            raise InvalidInput(field="chat", problem="does not belong to this subject: name the conversation as well")


def subject_of(scope: Scope, /) -> str:
    """Return the subject that a chat is an alias for."""
    return scope.agent or NO_SUBJECT


async def read_alias(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, /
) -> tuple[transcript.ChatAlias, int] | None:
    """Return the alias that a commit to `scope` must store, and its current revision; None if it is stored.

    Only a scope that names both a chat and another conversation ties them.
    """
    if scope.chat is None or scope.conversation is None:
        return None
    ref = _alias_ref(record, scope.channel, scope.chat)
    stored_alias, revision = await value_at(ctx.store, scope.space, ref, transcript.ChatAlias)
    if stored_alias is None and scope.conversation == scope.chat:
        return None
    chat_alias = stored_alias or transcript.ChatAlias(channel=scope.channel, chat=scope.chat)
    subject = subject_of(scope)
    if chat_alias.conversations.get(subject) == scope.conversation:
        return None
    other_subjects = [item for item in chat_alias.conversations.items() if item[0] != subject]
    conversations_by_subject = dict([*other_subjects, (subject, scope.conversation)][-ALIASED_SUBJECTS:])
    return chat_alias.model_copy(update={"conversations": conversations_by_subject}), revision


def put_alias(changes: ChangeSet, record: SpaceRecord, chat_alias: transcript.ChatAlias, revision: int, /) -> None:
    """Add the alias to a batch."""
    changes.put(_alias_ref(record, chat_alias.channel, chat_alias.chat), chat_alias, expects=revision, action=None)


def _alias_ref(record: SpaceRecord, channel: str, chat: str) -> DocumentRef:
    return DocumentRef(transcript.CHAT_ALIASES, record.alias_tag(channel, chat))
