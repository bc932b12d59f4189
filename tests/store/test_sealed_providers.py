"""Where key-encryption keys come from."""

import base64
import json
from pathlib import Path

import pytest
from tests.store.sealing import BOTH, KEYS, NEW, OLD, seal

from elytron_conformance.examples import (
    BOB,
    documents,
    fact,
    one,
    put,
)
from elytron_core.errors import (
    InvalidInput,
    KeyMissing,
    PermissionRefused,
    SealBroken,
)
from elytron_core.ports.store import (
    Document,
)
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import EnvironmentKeys, FileKeys, LocalKeys

pytestmark = pytest.mark.anyio


class TestLocalKeys:
    async def test_a_data_key_is_unwrapped_only_with_its_key_and_context(self) -> None:
        wrapped = await BOTH.wrap(b"data key", key_id="old", context=b"here")
        assert await KEYS.unwrap(wrapped, key_id="old", context=b"here") == b"data key"
        assert await BOTH.wrap(b"data key", key_id="old", context=b"here") != wrapped
        renamed = LocalKeys({"new": OLD}, current="new")
        with pytest.raises(SealBroken):
            await renamed.unwrap(wrapped, key_id="new", context=b"here")
        for altered, key_id, context in (
            (wrapped, "new", b"here"),
            (wrapped, "old", b"there"),
            (wrapped[:-1], "old", b"here"),
            (wrapped[:5], "old", b"here"),
            (b"", "old", b"here"),
            (bytes([wrapped[0] ^ 1]) + wrapped[1:], "old", b"here"),
        ):
            with pytest.raises(SealBroken):
                await BOTH.unwrap(altered, key_id=key_id, context=context)

    async def test_an_unknown_key_is_missing(self) -> None:
        with pytest.raises(KeyMissing):
            await KEYS.wrap(b"data key", key_id="new", context=b"")
        with pytest.raises(KeyMissing):
            await KEYS.unwrap(b"", key_id="new", context=b"")

    @pytest.mark.parametrize(
        ("keys", "current"),
        [
            ({}, "a"),
            ({"a": OLD}, "b"),
            ({"a": OLD[:31]}, "a"),
            ({"a": OLD + b"x"}, "a"),
            ({"a b": OLD}, "a b"),
            ({"": OLD}, ""),
        ],
    )
    def test_unusable_keys_are_refused_without_echo(self, keys: dict[str, bytes], current: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            LocalKeys(keys, current=current)
        assert repr(OLD)[2:20] not in str(refused.value)


class TestEnvironmentKeys:
    def text(self, *keys: tuple[str, bytes], between: str = ",") -> str:
        return between.join(f"{key_id}:{base64.b64encode(key).decode()}" for key_id, key in keys)

    @pytest.mark.parametrize("between", [",", " ", ", ", "\n"])
    async def test_the_first_key_is_the_current_one_and_older_ones_open(self, between: str) -> None:
        keys = EnvironmentKeys.from_text(self.text(("new", NEW), ("old", OLD), between=between))
        assert repr(keys) == "EnvironmentKeys(current='new', ids=['new', 'old'])"
        wrapped = await KEYS.wrap(b"data key", key_id="old", context=b"")
        assert await keys.unwrap(wrapped, key_id="old", context=b"") == b"data key"

    async def test_both_alphabets_of_base64_are_read(self) -> None:
        key = b"\xfb\xff" * 16
        texts = [base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()]
        first, second = (EnvironmentKeys.from_text(f"k:{text}") for text in texts)
        assert await second.unwrap(await first.wrap(b"x", key_id="k", context=b""), key_id="k", context=b"") == b"x"

    def test_unusable_text_is_refused_by_position_without_echo(self) -> None:
        good = self.text(("a", OLD))
        for text in ("", " , ", "secret-word", ":secret-word", "a:secret-word", f"{good},b:c2hvcnQ=", f"{good},{good}"):
            with pytest.raises(InvalidInput) as refused:
                EnvironmentKeys.from_text(text)
            assert "secret" not in str(refused.value)
            assert "c2hv" not in str(refused.value)
        with pytest.raises(InvalidInput, match="1 to 64 entries"):
            EnvironmentKeys.from_text(self.text(*((f"k{number}", OLD) for number in range(65))))


class TestFileKeys:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "elytron.keys"

    async def test_a_new_key_file_is_owner_only_and_reopens_the_store(self, path: Path) -> None:
        inner = MemoryStore()
        await put(await seal(inner, keys=FileKeys.create(path)), fact(1), b"kept")
        assert path.stat().st_mode & 0o777 == 0o600
        assert await one(await seal(inner, keys=FileKeys(path)), fact(1)) == Document(fact(1), 1, b"kept")
        with pytest.raises(InvalidInput, match="already exists"):
            FileKeys.create(path)

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
    def test_a_key_file_accessible_to_others_is_refused_with_a_hint(self, path: Path, mode: int) -> None:
        FileKeys.create(path)
        path.chmod(mode)
        with pytest.raises(PermissionRefused, match="chmod 600"):
            FileKeys(path)

    def test_a_missing_file_is_a_missing_key(self, path: Path) -> None:
        with pytest.raises(KeyMissing, match="cannot be opened"):
            FileKeys(path)

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "[]",
            "{}",
            '{"schema_name":"elytron.keys","schema_version":2,"current":"a","keys":{}}',
            '{"schema_name":"elytron.keys","schema_version":1,"current":"a","keys":{}}',
            '{"schema_name":"elytron.keys","schema_version":1,"current":"a","keys":{"a":"secret"}}',
            '{"schema_name":"elytron.keys","schema_version":1,"current":"a","keys":{"a":"secret"},"more":1}',
        ],
    )
    def test_invalid_key_files_are_rejected_without_echo(self, path: Path, content: str) -> None:
        path.touch(0o600)
        path.write_text(content)
        with pytest.raises(InvalidInput) as refused:
            FileKeys(path)
        assert "secret" not in str(refused.value)

    async def test_a_running_process_notices_a_key_added_to_the_file(self, path: Path) -> None:
        inner = MemoryStore()
        running = FileKeys.create(path)
        store = await seal(inner, keys=running)
        await put(store, fact(1), b"ada's")
        first = running.current()
        other = FileKeys(path)
        added = other.add_key()
        assert (other.current(), path.stat().st_mode & 0o777) == (added, 0o600)
        assert await (await seal(inner, keys=other)).rotate_key_encryption() == 2
        assert await documents(await seal(inner, keys=running)) == [Document(fact(1), 1, b"ada's")]
        assert running.current() == added != first
        await put(store, fact(1), b"bob's", space=BOB)
        kept = json.loads(path.read_text())
        del kept["keys"][first]
        path.write_text(json.dumps(kept))
        assert await one(await seal(inner, keys=FileKeys(path)), fact(1), space=BOB) == Document(fact(1), 1, b"bob's")

    async def test_the_current_key_of_a_missing_file_is_missing(self, path: Path) -> None:
        keys = FileKeys.create(path)
        wrapped = await keys.wrap(b"x", key_id=keys.current(), context=b"")
        key_id = keys.current()
        path.unlink()
        assert await keys.unwrap(wrapped, key_id=key_id, context=b"") == b"x"
        with pytest.raises(KeyMissing):
            keys.current()

    def test_concurrent_key_additions_count_once(self, path: Path) -> None:
        keys = FileKeys.create(path)
        beside = path.with_name("elytron.keys.new")
        beside.touch()
        with pytest.raises(InvalidInput, match="remove"):
            keys.add_key()
        beside.unlink()
        path.chmod(0o644)
        with pytest.raises(PermissionRefused):
            keys.add_key()
        assert not beside.exists()
        path.chmod(0o600)
        keys.add_key()
        assert [entry.name for entry in path.parent.iterdir()] == ["elytron.keys"]
        assert len(json.loads(path.read_text())["keys"]) == 2
