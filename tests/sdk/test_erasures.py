"""Erased content is erased again where an older copy restored it, and nothing else."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sdk.told import believe, learn, put, talk

import elytron
from elytron import MemoryErasuresApplyRequest, MemoryErasuresKeepRequest
from elytron_core.clock import FrozenClock
from elytron_core.contracts.archive import ErasuresOutcome
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import (
    MemoryTranscriptLifecycleRequest,
    TranscriptLifecycleTransition,
)
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, StoreUnavailable, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.ports.store import ErasureReceipt, ErasureTarget
from elytron_core.scope import Scope
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

STEPS = "1. Heat water.\n2. Add tea.\n3. Wait."
SKILL = "runtime_skill__brew"
GONE = ("the key is under the oar", "red", "Lisbon", "emptied")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    return str(tmp_path / "older.elytron")


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "erasures.jsonl"


@asynccontextmanager
async def put_back(
    archive: str, clock: FrozenClock, *, space: str = "ada", store: MemoryStore | str = "memory:"
) -> AsyncGenerator[elytron.MemoryRuntime]:
    """Yield the memory in the state of the archive, with time advanced."""
    async with elytron.open(store, space=space, clock=clock) as runtime:
        await runtime.import_archive(archive)
        yield runtime


async def texts(memory: elytron.MemoryRuntime) -> set[str]:
    """Return every text that the memory holds, shown or hidden."""
    page = await memory.list(elytron.MemoryListRequest(hidden=elytron.HiddenFilter.LISTED))
    return {item.text for item in page.items}


async def lived(memory: elytron.MemoryRuntime, archive: str) -> None:
    """Archive a space, then erase half of its content in every possible way."""
    (turn,) = (await memory.add("the key is under the oar", conversation="boat")).ids
    (first,) = (await talk(memory, (EvidenceRole.USER, "red"), (EvidenceRole.ASSISTANT, "green"))).ids
    (forgotten,) = (await memory.add("forgotten, not erased")).ids
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    await believe(memory, "drink", "tea")
    await learn(memory, "brew", STEPS)
    await put(memory, "notes", notes=[{"period": "2026-01-01", "text": "A day."}])
    await memory.add("emptied", conversation="attic")
    await memory.export(archive, include_private=True)
    await memory.erase([turn, first, fact, SKILL])
    await memory.forget(forgotten)
    emptying = TranscriptLifecycleTransition.DELETE_RAW
    attic = Scope(space=memory.scope.space, conversation="attic") if memory.scope is not None else None
    await memory.request_transcript_lifecycle(MemoryTranscriptLifecycleRequest(scope=attic, transition=emptying))


async def test_erased_content_is_erased_again_and_the_rest_stays(
    memory: elytron.MemoryRuntime, clock: FrozenClock, archive: str, told: Path
) -> None:
    await lived(memory, archive)
    kept = await memory.keep_erasures(told)
    assert kept.erased == {RecallPlane.TRANSCRIPT: 3, RecallPlane.LONG_TERM: 1, RecallPlane.PROCEDURAL: 1}
    assert not [word for word in (*GONE, "attic", "brew", "home") if word in told.read_text("utf-8")]
    async with put_back(archive, clock) as older:
        before = await texts(older)
        assert before >= set(GONE)
        dry = await older.apply_erasures(MemoryErasuresApplyRequest(path=str(told), dry_run=True))
        assert (dry.outcome, dry.erased, dry.changed) == (ErasuresOutcome.APPLIED, kept.erased, False)
        assert await texts(older) == before
        done = await older.apply_erasures(told)
        assert (done.outcome, done.erased, done.changed) == (ErasuresOutcome.APPLIED, kept.erased, True)
        assert await texts(older) == {"green", "tea", "forgotten, not erased", "A day."}
        state = (await older.inspect(fingerprints=True)).state_fingerprint
        again = await older.apply_erasures(told)
        assert (again.outcome, again.changed) == (ErasuresOutcome.NOTHING, False)
        assert (await older.inspect(fingerprints=True)).state_fingerprint == state
    state = (await memory.inspect(fingerprints=True)).state_fingerprint
    here = await memory.apply_erasures(told)
    assert (here.outcome, (await memory.inspect(fingerprints=True)).state_fingerprint) == (
        ErasuresOutcome.NOTHING,
        state,
    )


async def test_content_rewritten_under_the_same_name_stays(
    memory: elytron.MemoryRuntime, clock: FrozenClock, archive: str, told: Path
) -> None:
    await learn(memory, "brew", STEPS)
    await memory.add("first", conversation="boat")
    await memory.export(archive, include_private=True)
    (second,) = (await memory.add("second", conversation="boat")).ids
    await memory.erase([SKILL, second])
    await memory.keep_erasures(told)
    await learn(memory, "brew", STEPS.replace("tea", "mate"))
    assert (await memory.keep_erasures(told)).erased == {RecallPlane.PROCEDURAL: 1, RecallPlane.TRANSCRIPT: 1}
    assert not (await memory.apply_erasures(told)).changed
    async with put_back(archive, clock) as older:
        assert (await older.add("another second", conversation="boat")).ids == (second,)
        assert (await older.apply_erasures(told)).erased == {RecallPlane.PROCEDURAL: 1}
        assert await texts(older) == {"first", "another second"}
        # A file of a lost history is not thinned out by its replacement.
        assert (await older.keep_erasures(told)).erased == {RecallPlane.PROCEDURAL: 1, RecallPlane.TRANSCRIPT: 1}


async def test_a_turn_erased_in_pieces_is_counted_by_what_is_gone(memory: elytron.MemoryRuntime, told: Path) -> None:
    (turn,) = (await talk(memory, (EvidenceRole.USER, "red"), (EvidenceRole.ASSISTANT, "green"))).ids
    for piece in (turn, f"{turn}#1"):
        await memory.erase(piece)
        assert (await memory.keep_erasures(told)).erased == {RecallPlane.TRANSCRIPT: 1}


async def test_a_fact_that_was_only_closed_since_is_erased(
    memory: elytron.MemoryRuntime, clock: FrozenClock, archive: str, told: Path
) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    await memory.export(archive, include_private=True)
    await memory.erase(fact)
    await memory.keep_erasures(told)
    async with put_back(archive, clock) as older:
        await believe(older, "home", "Porto")
        assert (await older.apply_erasures(told)).erased == {RecallPlane.LONG_TERM: 1}
        assert await texts(older) == {"Porto"}


async def test_a_completely_erased_space_is_erased_completely_again(
    memory: elytron.MemoryRuntime, clock: FrozenClock, archive: str, told: Path
) -> None:
    await memory.add("the key is under the oar")
    await memory.export(archive, include_private=True)
    whole = MemoryErasuresKeepRequest(path=str(told), whole_space="ada")
    with pytest.raises(NotFound, match="no erased space of this name"):
        await memory.keep_erasures(whole)
    await memory.keep_erasures(told)
    with pytest.raises(InvalidInput, match="repeat its name"):
        await memory.keep_erasures(MemoryErasuresKeepRequest(path=str(told), whole_space="bob"))
    await memory.erase(whole_space="ada")
    with pytest.raises(NotFound, match="repeat whole_space"):
        await memory.keep_erasures(told)
    assert (await memory.keep_erasures(whole)).is_whole
    await memory.add("another ada's")
    assert not (await memory.apply_erasures(told)).changed
    async with put_back(archive, clock) as older:
        assert (await older.apply_erasures(MemoryErasuresApplyRequest(path=str(told), dry_run=True))).erased == {
            RecallPlane.TRANSCRIPT: 1
        }
        assert (await older.apply_erasures(told)).changed
        assert not (await older.inspect()).exists
        assert (await older.apply_erasures(told)).outcome is ErasuresOutcome.NOTHING
    async with put_back(archive, clock) as lived_in:
        await lived_in.add("written since")
        since = await lived_in.apply_erasures(told)
        assert (since.outcome, since.changed) == (ErasuresOutcome.WRITTEN_SINCE, False)
        assert len(await texts(lived_in)) == 2


async def test_erasures_apply_to_a_space_restored_under_another_name(
    memory: elytron.MemoryRuntime, clock: FrozenClock, archive: str, told: Path
) -> None:
    await lived(memory, archive)
    await memory.keep_erasures(told)
    async with put_back(archive, clock, space="ada again") as older:
        assert (await older.apply_erasures(told)).changed
        assert not await texts(older) & set(GONE)


class DyingStore(MemoryStore):
    """A store whose first physical erasure does not happen."""

    erasures = 0

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        self.erasures += 1
        if self.erasures == 1:
            raise StoreUnavailable("the process dies here")
        return await super().erase(erasure)


async def test_an_interrupted_application_of_erasures_is_finished(
    memory: elytron.MemoryRuntime, clock: FrozenClock, archive: str, told: Path
) -> None:
    await lived(memory, archive)
    kept = await memory.keep_erasures(told)
    store = DyingStore()
    async with put_back(archive, clock, store=store) as older:
        with pytest.raises(StoreUnavailable):
            await older.apply_erasures(told)
        assert (await older.apply_erasures(told)).erased == kept.erased
        assert store.erasures == 2
        assert (await older.apply_erasures(told)).outcome is ErasuresOutcome.NOTHING


HEAD = '{"format":"elytron.erasure.reapplication","lines":1,"version":1}\n'
SPACE = '{"space":"ada","identity":"00"}\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret\n",
        '{"schema_name":"elytron.state.conversation_heads","s3cret":1}\n',
        HEAD,
        HEAD + SPACE.rstrip("\n"),
        HEAD + SPACE + SPACE,
        HEAD + '{"collection":"turns","key":"00","at":1}\n',
        HEAD + '{"space":"ada","identity":"00","identity":"01"}\n',
        HEAD.replace('"version":1', '"version":2') + SPACE,
        HEAD.replace('"lines":1', '"lines":2') + SPACE + '{"collection":"space","key":"0","at":1}\n',
        HEAD + '{"space":"' + "s3cret" * 1_000 + '"}\n',
    ],
)
async def test_a_damaged_file_is_refused_and_left_unchanged(
    memory: elytron.MemoryRuntime, told: Path, text: str
) -> None:
    await memory.add("tea")
    told.write_text(text, "utf-8")
    for refused in (memory.apply_erasures(told), memory.keep_erasures(told)):
        with pytest.raises(UnreadableFile) as caught:
            await refused
        assert "s3cret" not in str(caught.value)
    assert told.read_text("utf-8") == text


async def test_an_unreadable_or_unwritable_file_is_reported(
    memory: elytron.MemoryRuntime, tmp_path: Path, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (turn,) = (await memory.add("tea")).ids
    await memory.erase(turn)
    with pytest.raises(UnreadableFile, match="does not exist"):
        await memory.apply_erasures(told)
    with pytest.raises(StoreUnavailable, match="your own folder"):
        await memory.keep_erasures(tmp_path / "nowhere" / "erasures.jsonl")
    await memory.keep_erasures(told)
    lines = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
    assert [sorted(line) for line in lines] == [
        ["format", "lines", "version"],
        ["identity", "space"],
        ["at", "collection", "key"],
    ]
    monkeypatch.setattr("elytron.erasure.reapplication.ERASURES_LINES", 1)
    with pytest.raises(UnreadableFile):
        await memory.apply_erasures(told)
    told.unlink()
    with pytest.raises(LimitExceeded):
        await memory.keep_erasures(told)
    assert [path.name for path in tmp_path.iterdir()] == []


async def test_an_empty_conversation_is_not_counted_and_its_numbering_continues(tmp_path: Path) -> None:
    async with elytron.open(tmp_path / "m.db", space="ada") as memory:
        first = await memory.add("Green tea.", conversation="kitchen")
        await memory.erase(first.ids[0])
        (space,) = (await memory.spaces()).spaces
        assert (space.conversations, space.turns) == (0, 0)
        assert (await memory.inspect()).conversations == ()
        await memory.add("Black tea.", conversation="kitchen")
        (turn,) = (await memory.replay("kitchen")).turns
        assert turn.sequence == 2
