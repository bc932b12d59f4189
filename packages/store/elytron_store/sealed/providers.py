"""Providers of key-encryption keys: a file that only its owner may read, or text from the environment."""

import base64
import binascii
import contextlib
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import ConfigDict, Field

from elytron_core.errors import InvalidInput, KeyMissing, PermissionRefused, SealBroken, StoreForeign
from elytron_core.model import Value
from elytron_core.strict_json import canonical_bytes
from elytron_store.private_files import private_opener, replace_file, sync_path
from elytron_store.sealed.cipher import KEY_BYTES, NONCE_BYTES, bound_place, random_nonce

PINNED_STORES: Final = 1_024
"""Places of sealed stores that a key file remembers; the one that was noted first goes."""


_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIST_MAX = 64
_FILE_BYTES = 64 * 1024
_PINS_SUFFIX = ".stores"
_PINS_BYTES = 1024 * 1024


class LocalKeys:
    """Key-encryption keys in memory: 32 random bytes each, by id. Shows only the ids, also in `repr`.

    Wraps with AES-256-GCM under random nonces; the id and the context are authenticated with the data key.
    """

    def __init__(self, keys: Mapping[str, bytes], /, *, current: str) -> None:
        """Store `keys`, of which `current` wraps. Raises InvalidInput, which never echoes a key."""
        for key_id, key in keys.items():
            if not _KEY_ID.fullmatch(key_id):
                raise InvalidInput(
                    field="key id", problem="must be at most 64 letters, digits, dots, dashes or underscores"
                )
            if len(key) != KEY_BYTES:
                raise InvalidInput(field=f"key {key_id!r}", problem=f"is not {KEY_BYTES} bytes long")
        if current not in keys:
            raise InvalidInput(field="current key", problem="is not among the keys")
        self._keys = dict(keys)
        self._current = current

    def __repr__(self) -> str:
        return f"{type(self).__name__}(current={self._current!r}, ids={sorted(self._keys)})"

    def current(self, /) -> str:
        """Return the id of the key that wraps."""
        return self._current

    async def wrap(self, data_key: bytes, /, *, key_id: str, context: bytes) -> bytes:
        """Return `data_key` sealed under `key_id` and bound to `context`. Raises KeyMissing."""
        nonce = random_nonce()
        return nonce + AESGCM(self._key(key_id)).encrypt(nonce, data_key, _bound_context(key_id, context))

    async def unwrap(self, wrapped_key: bytes, /, *, key_id: str, context: bytes) -> bytes:
        """Return the data key in `wrapped_key`. Raises KeyMissing for an unknown id, SealBroken for altered bytes."""
        key = self._key(key_id)
        try:
            return AESGCM(key).decrypt(
                wrapped_key[:NONCE_BYTES], wrapped_key[NONCE_BYTES:], _bound_context(key_id, context)
            )
        except (InvalidTag, ValueError):  # ValueError: shorter than a nonce
            raise SealBroken(what=f"a data key under the key-encryption key {key_id!r}") from None

    def _key(self, key_id: str) -> bytes:
        key = self._keys.get(key_id)
        if key is None:
            raise KeyMissing(
                f"the key-encryption key {key_id!r} is not among those provided ({', '.join(sorted(self._keys))}):"
                " provide the key this store was sealed with (--key-file, ELYTRON_KEY_FILE or keys=)"
            )
        return key


class EnvironmentKeys(LocalKeys):
    """Keys from the text of an environment variable, which the configuration reads."""

    @classmethod
    def from_text(cls, text: str, /) -> Self:
        """Return the keys in `text`: `id:base64` entries split by commas or white space, the current one first.

        Raises InvalidInput, which names the entry by its number and echoes nothing.
        """
        entries = text.replace(",", " ").split()
        if not 1 <= len(entries) <= _LIST_MAX:
            raise InvalidInput(field="key list", problem=f"must have 1 to {_LIST_MAX} entries of the form id:base64")
        keys: dict[str, bytes] = {}
        for entry_number, entry in enumerate(entries, 1):
            key_id, _, encoded_key = entry.partition(":")
            if not _KEY_ID.fullmatch(key_id) or key_id in keys:
                raise InvalidInput(field=f"key list, entry {entry_number}", problem="has no id, or a duplicate id")
            keys[key_id] = _decode_field(encoded_key, field=f"key list, entry {entry_number}")
        return cls(keys, current=next(iter(keys)))


class _PinFile(Value):
    model_config = ConfigDict(strict=True)

    schema_name: Literal["elytron.pins"] = "elytron.pins"
    schema_version: Literal[1] = 1
    stores: Annotated[dict[str, str], Field(max_length=PINNED_STORES)] = {}


class StorePins:
    """Identities of sealed stores, by location. A different store at a known location is rejected.

    The file is next to the key file, and so apart from the stores. If nothing may be written there, nothing is
    remembered.
    """

    def __init__(self, key_file: Path, /) -> None:
        self._path = key_file.parent / (key_file.name + _PINS_SUFFIX)

    def require(self, place: Path, identity: str, /, *, is_new: bool) -> None:
        """Raise StoreForeign if another store was opened at `place` before; a new one is recorded."""
        store_path = str(place.resolve())
        known_pins = self._read()
        if known_pins.get(store_path) == identity:
            return
        if store_path in known_pins and not is_new:
            raise StoreForeign(
                f"another sealed store was opened at {store_path!r} before: restore that one; if it was replaced on"
                f" purpose, remove its line from {str(self._path)!r}"
            )
        new_pins = {path: pinned_identity for path, pinned_identity in known_pins.items() if path != store_path} | {
            store_path: identity
        }
        self._write(dict(list(new_pins.items())[-PINNED_STORES:]))

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                return dict(_PinFile.from_bytes(file.read(_PINS_BYTES)).stores)
        except FileNotFoundError:
            return {}
        except (OSError, InvalidInput):
            raise InvalidInput(
                field="stores of the key file", problem=f"cannot be read: restore or remove {str(self._path)!r}"
            ) from None

    def _write(self, stores: dict[str, str]) -> None:
        """Replace the file atomically; if that fails, the next opening tries again."""
        with contextlib.suppress(OSError):
            replace_file(self._path, canonical_bytes(_PinFile(stores=stores)))


class _KeyFile(Value):
    model_config = ConfigDict(strict=True)

    schema_name: Literal["elytron.keys"]
    schema_version: Literal[1]
    current: str
    keys: dict[str, str]


class FileKeys(LocalKeys):
    """Keys from a JSON file that only its owner may read. Store it apart from the store and its backups.

    A running process notices keys that another added: it reads the file again when it needs a key that it does not
    have, and before it names the current one. The identity of the store at each location is recorded next to it: a
    different store there is rejected (see `StorePins`).
    """

    def __init__(self, path: str | os.PathLike[str], /) -> None:
        """Read the keys in the file `path`.

        Raises KeyMissing if there is none, PermissionRefused if others may read it, InvalidInput if it is
        not a key file.
        """
        self._path = Path(path)
        self.pins = StorePins(self._path)
        keys, current_id, self._stamp = _read_keys(self._path)
        super().__init__(keys, current=current_id)

    @classmethod
    def create(cls, path: str | os.PathLike[str], /) -> Self:
        """Return the keys of a new file with one random key, readable only by its owner.

        Raises InvalidInput where the file is there already, or cannot be made.
        """
        target = Path(path)
        key_id = _fresh_id()
        try:
            descriptor = _create_file(target)
        except FileExistsError:
            raise InvalidInput(
                field="key file", problem=f"{str(target)!r} already exists: use it or name another"
            ) from None
        except (OSError, ValueError) as error:
            raise _missing_file(target) from error
        with os.fdopen(descriptor, "wb") as file:
            _fill_file(file, {key_id: secrets.token_bytes(KEY_BYTES)}, current=key_id)
        sync_path(target.parent)
        return cls(target)

    def add_key(self) -> str:
        """Add a random key to the file and make it the current one; return its id.

        Then call `rotate_key_encryption` on each store of this file, before an older key is taken out of it. The file
        is replaced whole. Raises InvalidInput where another addition is under way, or nothing can be written.
        """
        # The new file's name is the lock: two additions at once would lose one of the keys.
        new_path = self._path.with_name(self._path.name + ".new")
        key_id = _fresh_id()
        try:
            descriptor = _create_file(new_path)
        except FileExistsError:
            raise InvalidInput(
                field="key file",
                problem="is being changed, or a change was interrupted: "
                f"if no process uses it, remove {str(new_path)!r}",
            ) from None
        except OSError as error:
            raise _missing_file(new_path) from error
        with contextlib.ExitStack() as cleanup_stack:
            cleanup_stack.callback(new_path.unlink)
            with os.fdopen(descriptor, "wb") as file:
                # Read under the lock, so that a key that another addition brought is not lost.
                keys, _, _ = _read_keys(self._path)
                _fill_file(file, {**keys, key_id: secrets.token_bytes(KEY_BYTES)}, current=key_id)
            new_path.replace(self._path)
            cleanup_stack.pop_all()
        sync_path(self._path.parent)
        self._reload()
        return key_id

    def current(self, /) -> str:
        """Return the id of the key that wraps, according to the file now. Raises as the constructor does."""
        try:
            has_changed = _file_stamp(self._path.stat()) != self._stamp
        except OSError:
            has_changed = True
        if has_changed:
            self._reload()
        return super().current()

    def _key(self, key_id: str) -> bytes:
        if key_id not in self._keys:
            self._reload()
        return super()._key(key_id)

    def _reload(self) -> None:
        self._keys, self._current, self._stamp = _read_keys(self._path)


_Stamp = tuple[int, int, int]


def _bound_context(key_id: str, context: bytes) -> bytes:
    return bound_place("elytron key 1", key_id) + context


def _fresh_id() -> str:
    return f"key-{secrets.token_hex(6)}"


def _decode_field(encoded: str, *, field: str) -> bytes:
    try:
        key = base64.b64decode(encoded, altchars=b"-_" if set(encoded) & {"-", "_"} else None, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInput(field=field, problem=f"must be {KEY_BYTES} bytes in base64")
    return key


def _read_keys(path: Path) -> tuple[dict[str, bytes], str, _Stamp]:
    try:
        key_stream = path.open("rb")
    except (OSError, ValueError) as error:
        raise KeyMissing(
            f"the key file {str(path)!r} cannot be opened: name the one this store was sealed with"
        ) from error
    with key_stream as file:
        # Checked on the open file, not the path: what is judged is what is read.
        state = os.fstat(file.fileno())
        if os.name == "posix" and stat.S_IMODE(state.st_mode) & 0o077:
            raise PermissionRefused(f"the key file {str(path)!r} is accessible to other users: chmod 600 it")
        data = file.read(_FILE_BYTES)
    try:
        key_file = _KeyFile.from_bytes(data)
    except InvalidInput:
        raise InvalidInput(
            field="key file", problem=f"{str(path)!r} is not a key file: restore it from its copy"
        ) from None
    keys = {
        key_id: _decode_field(encoded_key, field=f"key file, key {key_id!r}")
        for key_id, encoded_key in key_file.keys.items()
    }
    if key_file.current not in keys:
        raise InvalidInput(field="key file", problem=f"{str(path)!r} does not contain its current key")
    return keys, key_file.current, _file_stamp(state)


def _file_stamp(state: os.stat_result) -> _Stamp:
    return state.st_ino, state.st_size, state.st_mtime_ns


def _missing_file(path: Path) -> InvalidInput:
    return InvalidInput(field="key file", problem=f"{str(path)!r} cannot be created: name a file in your own folder")


def _create_file(path: Path) -> int:
    return private_opener(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def _fill_file(file: BinaryIO, keys: Mapping[str, bytes], *, current: str) -> None:
    encoded_keys = {key_id: base64.b64encode(key).decode() for key_id, key in keys.items()}
    content = _KeyFile(schema_name="elytron.keys", schema_version=1, current=current, keys=encoded_keys)
    file.write(canonical_bytes(content))
    file.flush()
    os.fsync(file.fileno())
