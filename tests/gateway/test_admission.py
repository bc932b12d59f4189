"""No text stored by the gateway contains a credential, in current or future fields."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from tests.gateway.asking import CHAT, add

import elytron
from elytron_core.errors import InvalidInput
from elytron_core.ids import SeededIds
from elytron_core.model import Value
from elytron_core.planes.servers import gateway as forms
from elytron_core.scope import OpaqueId
from elytron_gateway import wire
from elytron_gateway.collection import CollectionRepository
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import MemoryGateway
from elytron_gateway.wire import UserRequest

pytestmark = pytest.mark.anyio

CANARY = "AKIAIOSFODNN7EXAMPLE"
STORED = [form for form in vars(forms).values() if isinstance(form, type) and issubclass(form, Value)]
IDS = {
    ("QuotaShare", "space"): "a space's name keys its allotment",
    ("MessageAttachment", "memory_id"): "names the message",
    ("MessageAttachment", "session_id"): "names the chat",
    ("MessageAttachment", "upload_id"): "a repeat is known by it",
    ("UpstreamLag", "app"): "a scope's part",
    ("UpstreamLag", "holder"): "a random name of a process",
    ("UpstreamLag", "project"): "a scope's part",
    ("UpstreamLag", "user"): "a scope's part",
    ("MemoryOverride", "memory_id"): "names the memory",
    ("MemoryOverride", "session_id"): "names the chat",
    ("MemoryOverride", "told_by"): "names the message that holds the text",
    ("KeyName", "user_id"): "names the user",
    ("MessageItem", "attachment"): "names the stored bytes",
    ("UploadedResource", "resource_id"): "names the resource",
    ("UploadedResource", "twin"): "a digest",
    ("GatewaySession", "session_id"): "names the chat",
    ("ContentDuplicate", "resource_id"): "names the resource",
    ("GatewayUser", "key_tag"): "a keyed digest of the key",
    ("GatewayUser", "salt"): "random, for the key",
    ("GatewayUser", "spaces"): "names of spaces",
    ("GatewayUser", "user_id"): "names the user",
    ("WaitingAddition", "app"): "a scope's part",
    ("WaitingAddition", "project"): "a scope's part",
    ("WaitingAddition", "session_id"): "names the chat",
    ("WaitingAddition", "user"): "a scope's part",
    ("WaitingMessage", "key"): "a repeat is known by it",
    ("WaitingMessage", "tags"): "compared by filters",
}
"""Every field that admission leaves unchanged, with the reason."""


def holds_text(kind: Any) -> bool:
    """Return whether a value of this type may be or contain text."""
    if get_origin(kind) in {Annotated, Union, types.UnionType, tuple, dict}:
        return any(holds_text(part) for part in get_args(kind) if part is not ...)
    return kind is str


def text_fields(form: type[Value]) -> Iterator[tuple[str, bool]]:
    """Yield the text fields of a form, with whether admission leaves each unchanged."""
    for name, field in form.model_fields.items():
        if holds_text(field.annotation):
            yield name, any(isinstance(mark, OpaqueId) for mark in field.metadata)


def test_only_the_listed_ids_are_stored_unchanged() -> None:
    exempt = {(form.__name__, name) for form in STORED for name, is_id in text_fields(form) if is_id}
    assert exempt == set(IDS)


@pytest.mark.parametrize("form", STORED, ids=lambda form: form.__name__)
async def test_a_credential_in_any_stored_text_is_redacted(memory: elytron.MemoryRuntime, form: type[Value]) -> None:
    for name, is_id in text_fields(form):
        if is_id or get_origin(form.model_fields[name].annotation) is dict:
            continue
        others = dict.fromkeys(form.model_fields)
        fields: dict[str, Any] = {**others, name: f"the key is {CANARY}"}
        given = form.model_construct(None, **fields)
        clean = CollectionRepository(memory.context, "any", form).admit(given)
        assert CANARY not in getattr(clean, name), (form.__name__, name)


async def test_every_text_that_a_caller_sends_is_admitted(tmp_path: Path) -> None:
    text = f"the stoat's key is {CANARY}"
    async with elytron.open(tmp_path / "m.db", space=None, ids=SeededIds()) as memory:
        gateway = MemoryGateway(memory)
        who = (await gateway.create_user(UserRequest(user_id="ada"))).model_dump()
        await gateway.add(add(who, "The boiler code is 4417."))
        given = UploadedFile(data=b"A page about boilers.", file_name=f"{CANARY}.txt", title=text, description=text)
        resource = await gateway.upload(wire.PlacedRequest(**who), given)
        found = await gateway.search(
            wire.GatewaySearchRequest.model_validate(
                {**who, "query": "boiler", "scope": ["all_user_memory", "resources"]}
            )
        )
        edit: dict[str, Any] = {**who, "memory_id": found.results[0].id, "session_id": found.results[0].session_id}
        answers = [
            resource,
            await gateway.override(wire.OverrideRequest(**edit, text=text)),
            await gateway.edits(wire.PlacedRequest(**who)),
            await gateway.delete(wire.DeleteRequest(**edit, reason=text)),
            await gateway.edits(wire.PlacedRequest(**who)),
        ]
        assert CANARY not in str(answers)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert CANARY.encode() not in stored


@pytest.mark.parametrize("text", ["  ", "\u200b", "\u00ad \n"])
async def test_a_blank_override_is_rejected_before_anything_is_done(
    gateway: MemoryGateway, ada: dict[str, str], text: str
) -> None:
    await gateway.add(add(ada, "The boiler code is 4417."))
    asked = wire.GatewaySearchRequest.model_validate({**ada, "query": "boiler code", "scope": ["all_user_memory"]})
    (found,) = (await gateway.search(asked)).results
    edit: dict[str, Any] = {**ada, "memory_id": found.id, "session_id": CHAT}
    with pytest.raises(InvalidInput, match="no visible character"):
        await gateway.override(wire.OverrideRequest(**edit, text=text))
    assert (await gateway.edits(wire.PlacedRequest(**ada))).edits == ()
    await gateway.override(wire.OverrideRequest(**edit, text="The boiler code is 9911."))
    assert (await gateway.search(asked)).results[0].text == "The boiler code is 9911."
