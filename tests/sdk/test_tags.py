"""Tags have one normal form, wherever they are stored or filtered."""

from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

import elytron
from elytron_agent.blocks.archive import ArchivalMemory
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.contracts.transcript import MemoryTranscriptCommitRequest, MemoryWriteRequest
from elytron_core.errors import InvalidInput
from elytron_core.ids import SeededIds, SpaceId, TurnId
from elytron_core.model import Value
from elytron_core.planes.transcript import TURNS, Turn
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange
from elytron_core.tags import tag_form
from elytron_integrations.integration_table import INTEGRATIONS

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
GIVEN = ("  FINANCE", "finance ", "Ｆinance", "Work  trip")
STORED = ("finance", "work trip")
OTHER = {
    ("RedactedTranscriptTurn", "tags"): "is read, not given",
    ("RecallHit", "tags"): "is read, not given",
    ("Turn", "tags"): "is stored: those of earlier builds are as they were given",
    ("EmbeddingAnswer", "tags"): "is read, not given",
    ("RagHit", "tags"): "is read, not given",
    ("SearchHit", "tags"): "is read, not given",
    ("WaitingMessage", "tags"): "is stored, and becomes a turn by the way of every turn",
    ("EmbeddingChoice", "tag"): "is the tag of a model",
    ("GatewayUser", "key_tag"): "is the keyed digest of a key",
    ("AgentToolDescriptor", "permission_tags"): "is part of a tool's fingerprint",
    ("AgentToolDescriptor", "risk_tags"): "is part of a tool's fingerprint",
    ("AgentToolHint", "permission_tags"): "is part of a tool's fingerprint",
    ("AgentToolHint", "risk_tags"): "is part of a tool's fingerprint",
}

SEARCHES = {"RagSearchRequest"}
"""Requests whose `tags` are a filter."""


ADAPTERS = tuple(row.module for row in INTEGRATIONS)
"""Modules that need a framework. They have no values with tags."""


def modules() -> list[str]:
    """Return the modules of all packages, without the adapters of frameworks."""
    packages = Path(__file__).parents[2] / "packages"
    return [
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for package in packages.iterdir()
        for path in package.rglob("*.py")
        if path.name != "__main__.py"
        if not ".".join(path.relative_to(package).with_suffix("").parts).startswith(ADAPTERS)
    ]


def kinds(base: type[Value]) -> list[type[Value]]:
    return [kind for child in base.__subclasses__() for kind in (child, *kinds(child))]


def tag_fields() -> list[tuple[type[Value], str]]:
    """Return every field with tags in the product's values."""
    for name in modules():
        import_module(name)
    own = {kind for kind in kinds(Value) if kind.__module__.startswith("elytron")}
    return [(kind, name) for kind in own for name in kind.model_fields if {"tag", "tags"} & {*name.split("_")}]


def taken(kind: type[Value], name: str, given: tuple[str, ...]) -> Any:
    field = kind.model_fields[name]
    form: Any = Annotated[(field.annotation, *field.metadata)]
    return TypeAdapter[Any](form).validate_python(given)


async def test_every_tag_field_accepts_any_form() -> None:
    fields = [(kind, name) for kind, name in tag_fields() if (kind.__name__, name) not in OTHER]
    assert {(kind.__name__, name) for kind, name in fields} >= {("TurnDraft", "tags"), ("RecallFilters", "tags_any")}
    for kind, name in fields:
        is_filter = name in {"tags_any", "tags_all"} or kind.__name__ in SEARCHES
        # Text to be stored keeps its capitals until admission has read it.
        expected = ("finance",) if is_filter else ("FINANCE",)
        assert taken(kind, name, ("  FINANCE ",)) == expected, (kind, name)


async def test_every_listed_tag_field_exists() -> None:
    assert {(kind.__name__, name) for kind, name in tag_fields()} >= OTHER.keys()


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[elytron.MemoryRuntime]:
    path = str(tmp_path / "memory.db")
    async with elytron.open(path, space=ADA, clock=FrozenClock(step_ms=1), ids=SeededIds()) as runtime:
        yield runtime


async def tags_of(memory: elytron.MemoryRuntime) -> tuple[str, ...]:
    (hit,) = (await memory.recall("ferry")).hits
    return hit.tags


async def add(memory: elytron.MemoryRuntime) -> None:
    await memory.add("The ferry is paid", tags=GIVEN)


async def complete(memory: elytron.MemoryRuntime) -> None:
    """Commit a turn that was not delivered, and then its delivery."""
    for delivery in ("user_only", "delivered"):
        turn = {"host_id": "t1", "messages": [{"text": "The ferry is paid"}], "tags": GIVEN, "delivery": delivery}
        write = {"kind": "transcript", "turns": [turn]}
        await memory.write(MemoryWriteRequest.model_validate({"write": write}))


async def commit(memory: elytron.MemoryRuntime) -> None:
    turn = {"turn_id": "t1", "input_messages": [{"text": "The ferry is paid"}], "tags": GIVEN}
    await memory.commit_transcript(MemoryTranscriptCommitRequest.model_validate({"delta": turn}))


async def archive(memory: elytron.MemoryRuntime) -> None:
    await ArchivalMemory(memory).insert("The ferry is paid", tags=", ".join(GIVEN))


@pytest.mark.parametrize("store", [add, complete, commit, archive])
async def test_a_tag_is_stored_in_its_normal_form_once(memory: elytron.MemoryRuntime, store: Any) -> None:
    await store(memory)
    assert await tags_of(memory) == STORED


@pytest.mark.parametrize("asked", [*GIVEN, "FINANCE", "Work Trip"])
async def test_a_filter_matches_a_tag_in_any_form(memory: elytron.MemoryRuntime, asked: str) -> None:
    await add(memory)
    for filters in ({"tags_any": (asked,)}, {"tags_all": (asked, "finance")}, {"tags": [asked]}):
        assert [hit.text for hit in (await memory.recall("ferry", filters=filters)).hits] == ["The ferry is paid"]
        assert [hit.text for hit in (await memory.list(filters=filters)).items] == ["The ferry is paid"]


async def test_a_tag_of_an_earlier_build_is_matched_in_any_form(memory: elytron.MemoryRuntime) -> None:
    (said,) = (await memory.add("The ferry is paid", tags=["x"])).ids
    ref, store = DocumentRef(TURNS, TurnId(said.partition("#")[0])), memory.context.store
    (document,) = await store.get(ADA, (ref,))
    assert document is not None
    turn = Turn.from_bytes(document.body).model_copy(update={"tags": ("FINANCE",)})
    puts, entry = (PutChange(ref, turn.to_bytes(), document.revision),), EntryDraft(JournalAction.WRITE, ref)
    await store.commit(Batch(ADA, FrozenClock().now(), (entry,), puts))
    assert (await memory.recall("ferry", filters={"tags_any": ("finance",)})).hits
    assert (await memory.list(filters={"tags_all": ("Finance",)})).items


async def test_a_credential_in_a_tag_is_recognised_before_lowercasing(memory: elytron.MemoryRuntime) -> None:
    await ArchivalMemory(memory).insert("The ferry is paid", tags=["AKIAIOSFODNN7EXAMPLE"])
    assert await tags_of(memory) == ("[redacted:aws_key]",)


async def test_a_tag_without_visible_characters_is_neither_stored_nor_a_filter(memory: elytron.MemoryRuntime) -> None:
    await memory.add("The ferry is paid", tags=["\u3164", "paid"])
    assert await tags_of(memory) == ("paid",)
    with pytest.raises(InvalidInput, match="tags_any"):
        await memory.recall("ferry", filters={"tags_any": ("\u3164",)})


async def test_the_normal_form_of_a_long_tag_is_a_tag() -> None:
    assert len(tag_form("ﷺ" * 100)) <= limits.NAME_CHARS
