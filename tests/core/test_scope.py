"""The scope of an event."""

import pytest

from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.model import Request
from elytron_core.scope import ConversationKey, Scope

ADA = SpaceId("ada")


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        (Scope(space=ADA), ConversationKey("default", "default")),
        (Scope(space=ADA, chat="old"), ConversationKey("default", "old")),
        (Scope(space=ADA, channel="mail", chat="old", conversation="new"), ConversationKey("mail", "new")),
    ],
)
def test_writes_use_the_conversation_or_the_chat_or_the_default(scope: Scope, key: ConversationKey) -> None:
    assert scope.conversation_key == key


class Asking(Request):
    scope: Scope


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "scope.space is not valid: field required"),
        ({"space": ""}, "scope.space is not valid: string should have at least 1 character"),
        ({"space": "hunter2\n"}, "scope.space has control characters or surrounding white space"),
        ({"space": "a", "agent": " hunter2"}, "scope.agent has control characters or surrounding white space"),
        (
            {"space": "a", "tenant": "hunter2"},
            "scope.tenant is not a field: choose from space, agent, app, project, channel, chat, conversation",
        ),
    ],
)
def test_an_invalid_scope_is_rejected_by_field(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Asking(scope=given)  # pyright: ignore[reportArgumentType]
    assert raised.value.message == message


def test_field_names_of_the_first_protocol_version_are_accepted_too() -> None:
    first = {"memory_space_id": "ada", "agent_id": "a", "channel_id": "web", "chat_id": "c", "conversation_id": "t"}
    asked = Asking.model_validate({"scope": first})
    assert asked.scope == Scope(space=ADA, agent="a", channel="web", chat="c", conversation="t")
    assert set(asked.model_dump()["scope"]) == set(Scope.model_fields)
    with pytest.raises(InvalidInput, match=r"scope\.memory_space_id is not a field"):
        Asking.model_validate({"scope": {"space": "ada", "memory_space_id": "bob"}})
