"""No text that the gateway stores holds a credential: neither today's fields nor those that are added later."""

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
from elytron_core.planes import gateway as forms
from elytron_core.scope import Opaque
from elytron_gateway import wire
from elytron_gateway.collection import Shelf
from elytron_gateway.resources import Given
from elytron_gateway.service import Gateway
from elytron_gateway.wire import UserRequest

pytestmark = pytest.mark.anyio

CANARY = "AKIAIOSFODNN7EXAMPLE"
STORED = [form for form in vars(forms).values() if isinstance(form, type) and issubclass(form, Value)]
IDS = {
    ("Allotment", "space"): "a space's name keys its allotment",
    ("Attachment", "memory_id"): "names the message",
    ("Attachment", "session_id"): "names the chat",
    ("Attachment", "upload_id"): "a repeat is known by it",
    ("Behind", "app"): "a scope's part",
    ("Behind", "holder"): "a random name of a process",
    ("Behind", "project"): "a scope's part",
    ("Behind", "user"): "a scope's part",
    ("Edit", "memory_id"): "names the memory",
    ("Edit", "session_id"): "names the chat",
    ("Edit", "told_by"): "names the message that holds the text",
    ("KeyName", "user_id"): "names the user",
    ("MessageItem", "attachment"): "names the stored bytes",
    ("Resource", "resource_id"): "names the resource",
    ("Resource", "twin"): "a digest",
    ("Session", "session_id"): "names the chat",
    ("Twin", "resource_id"): "names the resource",
    ("User", "salt"): "random, for the key",
    ("User", "spaces"): "names of spaces",
    ("User", "user_id"): "names the user",
    ("Waiting", "app"): "a scope's part",
    ("Waiting", "project"): "a scope's part",
    ("Waiting", "session_id"): "names the chat",
    ("Waiting", "user"): "a scope's part",
    ("WaitingMessage", "key"): "a repeat is known by it",
    ("WaitingMessage", "tags"): "compared by filters",
}
"""Every field that admission leaves as it is, with the reason."""


def holds_text(kind: Any) -> bool:
    """Return whether a value of this type may be, or hold, a text."""
    if get_origin(kind) in {Annotated, Union, types.UnionType, tuple, dict}:
        return any(holds_text(part) for part in get_args(kind) if part is not ...)
    return kind is str


def text_fields(form: type[Value]) -> Iterator[tuple[str, bool]]:
    """Yield the fields of a form that hold text, and whether admission leaves each as it is."""
    for name, field in form.model_fields.items():
        if holds_text(field.annotation):
            yield name, any(isinstance(mark, Opaque) for mark in field.metadata)


def test_only_the_ids_listed_here_are_stored_as_they_are_given() -> None:
    exempt = {(form.__name__, name) for form in STORED for name, is_id in text_fields(form) if is_id}
    assert exempt == set(IDS)


@pytest.mark.parametrize("form", STORED, ids=lambda form: form.__name__)
async def test_a_credential_in_any_text_of_a_stored_form_is_blacked_out(
    memory: elytron.MemoryRuntime, form: type[Value]
) -> None:
    for name, is_id in text_fields(form):
        if is_id or get_origin(form.model_fields[name].annotation) is dict:
            continue
        others = dict.fromkeys(form.model_fields)
        fields: dict[str, Any] = {**others, name: f"the key is {CANARY}"}
        given = form.model_construct(None, **fields)
        clean = Shelf(memory.context, "any", form).admit(given)
        assert CANARY not in getattr(clean, name), (form.__name__, name)


async def test_every_text_that_a_caller_sends_is_admitted(tmp_path: Path) -> None:
    text = f"the stoat's key is {CANARY}"
    async with elytron.open(tmp_path / "m.db", space=None, ids=SeededIds()) as memory:
        gateway = Gateway(memory)
        who = (await gateway.create_user(UserRequest(user_id="ada"))).model_dump()
        await gateway.add(add(who, "The boiler code is 4417."))
        given = Given(data=b"A page about boilers.", file_name=f"{CANARY}.txt", title=text, description=text)
        resource = await gateway.upload(wire.Placed(**who), given)
        found = await gateway.search(
            wire.SearchRequest.model_validate({**who, "query": "boiler", "scope": ["all_user_memory", "resources"]})
        )
        edit: dict[str, Any] = {**who, "memory_id": found.results[0].id, "session_id": found.results[0].session_id}
        answers = [
            resource,
            await gateway.override(wire.OverrideRequest(**edit, text=text)),
            await gateway.edits(wire.Placed(**who)),
            await gateway.delete(wire.DeleteRequest(**edit, reason=text)),
            await gateway.edits(wire.Placed(**who)),
        ]
        assert CANARY not in str(answers)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert CANARY.encode() not in stored


@pytest.mark.parametrize("text", ["  ", "\u200b", "\u00ad \n"])
async def test_a_blank_override_is_refused_before_anything_is_done(
    gateway: Gateway, ada: dict[str, str], text: str
) -> None:
    await gateway.add(add(ada, "The boiler code is 4417."))
    asked = wire.SearchRequest.model_validate({**ada, "query": "boiler code", "scope": ["all_user_memory"]})
    (found,) = (await gateway.search(asked)).results
    edit: dict[str, Any] = {**ada, "memory_id": found.id, "session_id": CHAT}
    with pytest.raises(InvalidInput, match="no visible character"):
        await gateway.override(wire.OverrideRequest(**edit, text=text))
    assert (await gateway.edits(wire.Placed(**ada))).edits == ()
    await gateway.override(wire.OverrideRequest(**edit, text="The boiler code is 9911."))
    assert (await gateway.search(asked)).results[0].text == "The boiler code is 9911."
