"""A space under its user's own secret: its answers, and what the store contains of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.store.postgres_rig import empty_store
from tests.store.postgres_server import PostgresServer

import elytron
from elytron.runtime import MemoryRuntime
from elytron.secrets.forms import SecretState
from elytron_core.clock import FrozenClock
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import (
    Conflict,
    ElytronError,
    NotFound,
    RateLimited,
    SecretRefused,
    SpaceLocked,
    WordsInvalid,
)
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope
from elytron_store.postgres.store import PostgresStore
from elytron_store.sealed.providers import LocalKeys
from elytron_store.secret.derivation import user_key

pytestmark = pytest.mark.anyio

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
OTHER_WORDS = "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic"
PASSPHRASE = "the tide table hangs in the kitchen"
CANARY = "heronsnest"
KEYS = LocalKeys({"old": bytes(range(32))}, current="old")
FORMS = (CANARY.encode(), CANARY[:6].encode(), CANARY.encode().hex().encode())


@pytest.fixture(params=["memory", "sqlite", "file", "sealed", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, LocalKeys | None]:
    match request.param:
        case "postgres":
            return await empty_store(request.getfixturevalue("database")), None
        case "memory":
            return "memory:", None
        case "file":
            return f"file:{tmp_path / 'kept'}", None
        case "sealed":
            return f"sqlite:{tmp_path / 'kept.db'}", KEYS
        case _:
            return f"sqlite:{tmp_path / 'kept.db'}", None


@pytest.fixture(autouse=True)
def least_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys of passphrases with the minimum memory that a store accepts."""
    monkeypatch.setattr(user_key, "MEMORY_KIB", 8 * 1024)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def memory(place: tuple[str, LocalKeys | None], clock: FrozenClock) -> AsyncIterator[MemoryRuntime]:
    url, keys = place
    async with elytron.open(url, space="ada", keys=keys, clock=clock) as opened:
        yield opened


async def tell(memory: MemoryRuntime, space: str = "ada", *, times: int = 3) -> None:
    for number in range(times):
        text = f"{CANARY} {number}: the boat key is under the oar"
        await memory.add(text, user_id=space, conversation=CANARY, tags=[CANARY], speaker="Noor")
    await memory.add_fact("key", f"{CANARY} is where the key is", user_id=space)


async def found(memory: MemoryRuntime, space: str = "ada") -> list[str]:
    return [hit.text for hit in (await memory.search(CANARY, user_id=space)).hits]


def bytes_beneath(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_a_locked_space_answers_space_locked(memory: MemoryRuntime) -> None:
    await tell(memory)
    before = await found(memory)
    assert (await memory.secrets.status("ada")).state is SecretState.PLAIN
    made = await memory.secrets.seal("ada", words=WORDS)
    assert (made.state, made.kind, made.derivation) == (SecretState.UNLOCKED, "words", "bip85")
    assert await found(memory) == before
    await memory.add(f"{CANARY}, said later")
    assert (await memory.secrets.lock("ada")).state is SecretState.LOCKED
    for call in (found(memory), tell(memory), memory.list(), memory.inspect(), memory.project(CANARY)):
        with pytest.raises(SpaceLocked):
            await call
    assert (await memory.secrets.unlock("ada", words=SecretStr(WORDS.upper()))).state is SecretState.UNLOCKED
    assert len(await found(memory)) == len(before) + 1


async def test_other_spaces_are_untouched(memory: MemoryRuntime) -> None:
    await tell(memory, "bea")
    before = await found(memory, "bea")
    await memory.secrets.seal("ada", passphrase=PASSPHRASE)
    await memory.secrets.lock("ada")
    await tell(memory, "bea", times=1)
    assert len(await found(memory, "bea")) > len(before)
    assert {each.space for each in (await memory.spaces()).spaces} == {"ada", "bea"}


@pytest.mark.parametrize("engine", ["sqlite", "file"])
async def test_no_plain_text_remains_in_the_store(engine: str, tmp_path: Path) -> None:
    place = tmp_path / "store" / ("kept.db" if engine == "sqlite" else "kept")
    place.parent.mkdir()
    async with elytron.open(f"{engine}:{place}", space="ada") as memory:
        await tell(memory, times=40)
        await found(memory)
        assert CANARY.encode() in bytes_beneath(place.parent)
        await memory.secrets.seal("ada", passphrase=PASSPHRASE)
        assert [form for form in FORMS if form in bytes_beneath(place.parent)] == []
        await tell(memory, times=40)
        await found(memory)
        await memory.context.folds.checkpoint()
        await memory.secrets.lock("ada")
        held = bytes_beneath(place.parent)
    async with elytron.open(f"{engine}:{place}", space="ada") as memory:
        with pytest.raises(SpaceLocked):
            await found(memory)
    held += bytes_beneath(place.parent)
    assert [form for form in (*FORMS, b"oar", PASSPHRASE.encode(), b"Noor") if form in held] == []


async def test_no_plain_text_remains_in_the_tables_of_a_server(postgres: PostgresServer, database: str) -> None:
    word = "gannetcolony"  # no other test's: their rows may still be in the files
    async with elytron.open(await empty_store(database), space="ada") as memory:
        await memory.add(f"the {word} is loud", tags=[word])
        await memory.secrets.seal("ada", words=WORDS)
        await memory.add(f"the {word} is louder")
        await memory.search(word)
        await memory.context.folds.checkpoint()
        await memory.secrets.lock("ada")
        store = memory.store
        assert isinstance(store, PostgresStore)
        async with store.lend_connection() as connection:
            await connection.execute("CHECKPOINT")
        held = bytes_beneath(postgres.tables_of(database))
    assert word.encode() not in held


async def test_wrong_secrets_get_one_answer_and_a_limit(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await tell(memory)
    await memory.secrets.seal("ada", words=WORDS)
    await memory.secrets.lock("ada")
    with pytest.raises(WordsInvalid):
        await memory.secrets.unlock("ada", words=WORDS.replace("yellow", "zebra"))
    messages: set[str] = set()
    for words, passphrase in ((OTHER_WORDS, None), (None, PASSPHRASE)) * 10:
        with pytest.raises(SecretRefused) as refused:
            await memory.secrets.unlock("ada", words=words, passphrase=passphrase)
        messages.add(refused.value.message)
        clock.advance(8_000)
    assert len(messages) == 1
    with pytest.raises(SecretRefused):
        await memory.secrets.unlock("ada", words=OTHER_WORDS)
    with pytest.raises(RateLimited) as limited:
        await memory.secrets.unlock("ada", words=WORDS)
    assert 0 < limited.value.retry_after_s <= 8
    clock.advance(8_000)
    assert (await memory.secrets.unlock("ada", words=WORDS)).state is SecretState.UNLOCKED


async def test_concurrent_wrong_secrets_do_not_bypass_the_limit(memory: MemoryRuntime) -> None:
    await memory.secrets.seal("ada", words=WORDS)
    await memory.secrets.lock("ada")
    calls = [memory.secrets.unlock("ada", words=OTHER_WORDS) for _ in range(30)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(end, SecretRefused) for end in ends) <= 5
    assert all(isinstance(end, SecretRefused | RateLimited) for end in ends)


async def test_a_session_expires(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await memory.secrets.seal("ada", words=WORDS, minutes=5)
    await tell(memory)
    clock.advance(299_000)
    assert await found(memory)
    clock.advance(1_000)
    with pytest.raises(SpaceLocked):
        await found(memory)
    await memory.secrets.look()
    assert list(memory.secrets.store.sessions) == []
    assert memory.context.folds.memory_use[0] == 0


async def test_a_changed_secret_opens_earlier_sealed_content(memory: MemoryRuntime) -> None:
    await tell(memory)
    before = await found(memory)
    await memory.secrets.seal("ada", words=WORDS)
    with pytest.raises(SecretRefused):
        await memory.secrets.change("ada", words=OTHER_WORDS, new_passphrase=PASSPHRASE)
    changed = await memory.secrets.change("ada", words=WORDS, new_passphrase=PASSPHRASE)
    assert (changed.state, changed.kind) == (SecretState.UNLOCKED, "passphrase")
    await memory.secrets.lock("ada")
    with pytest.raises(SecretRefused):
        await memory.secrets.unlock("ada", words=WORDS)
    await memory.secrets.unlock("ada", passphrase=PASSPHRASE)
    assert await found(memory) == before


async def test_a_resealed_space_answers_as_before(memory: MemoryRuntime) -> None:
    await tell(memory)
    before = await found(memory)
    await memory.secrets.seal("ada", words=WORDS)
    assert (await memory.secrets.rotate("ada", words=WORDS)).state is SecretState.UNLOCKED
    assert await found(memory) == before
    await memory.add(f"{CANARY}, said later")
    await memory.secrets.lock("ada")
    await memory.secrets.unlock("ada", words=WORDS)
    assert len(await found(memory)) == len(before) + 1
    assert len(list(await memory.context.store.spaces(limit=10))) == 1
    assert (await memory.context.store.check()).ok


async def test_a_locked_space_is_erased_without_its_secret(memory: MemoryRuntime) -> None:
    await tell(memory)
    await memory.secrets.seal("ada", words=WORDS)
    await memory.secrets.lock("ada")
    scope = Scope(space=SpaceId("ada"))
    report = await memory.erase(MemoryEraseRequest(scope=scope, whole_space="ada", reason="asked"))
    assert report.changed
    assert (await memory.secrets.status("ada")).state is SecretState.PLAIN
    assert list(await memory.store.spaces(limit=10)) == []
    await tell(memory)
    assert await found(memory)


async def test_a_space_has_one_secret(memory: MemoryRuntime) -> None:
    await memory.secrets.seal("ada", words=WORDS)
    with pytest.raises(Conflict):
        await memory.secrets.seal("ada", words=OTHER_WORDS)
    for call in (memory.secrets.unlock("bea", words=WORDS), memory.secrets.lock("bea"), memory.secrets.grant("bea")):
        with pytest.raises(NotFound, match="no sealed space of this name: seal it first"):
            await call


async def test_nothing_reveals_a_secret(memory: MemoryRuntime) -> None:
    # Known words: fresh ones might occur in a message.
    words, fresh = SecretStr(WORDS), memory.secrets.fresh_words()
    assert fresh.get_secret_value() not in repr(fresh) + str(fresh)
    await memory.secrets.seal("ada", words=words)
    with pytest.raises(ElytronError) as refused:
        await memory.secrets.change("ada", words=OTHER_WORDS, new_passphrase="short one")
    shown = [repr(memory.secrets), repr(words), str(words), refused.value.message, repr(refused.value.details())]
    shown += [repr(memory.secrets.store.sessions.of(space)) for space in memory.secrets.store.sessions]
    shown += [(await memory.secrets.status("ada")).model_dump_json()]
    for word in {*words.get_secret_value().split(), "short one"}:
        assert not [text for text in shown if f" {word} " in f" {text} "]
