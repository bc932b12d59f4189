"""Pins: which store a key file has opened at each place, remembered beside the key file."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from elytron_core import limits
from elytron_core.canonical import canonical_bytes
from elytron_core.errors import InvalidInput, StoreForeign
from elytron_core.model import Value

_SUFFIX: Final = ".stores"
_FILE_BYTES: Final = 1024 * 1024


class _PinFile(Value):
    model_config = ConfigDict(strict=True)

    schema_name: Literal["elytron.pins"] = "elytron.pins"
    schema_version: Literal[1] = 1
    stores: Annotated[dict[str, str], Field(max_length=limits.PINNED_STORES)] = {}


class StorePins:
    """The identities of sealed stores, by their places. What is put in the place of another is refused.

    The file stands beside the key file, and so apart from the stores. Where nothing may be written there, nothing is
    remembered.
    """

    def __init__(self, key_file: Path, /) -> None:
        self._path = key_file.with_name(key_file.name + _SUFFIX)

    def require(self, place: Path, identity: str, /, *, is_new: bool) -> None:
        """Raise StoreForeign if another store was opened at `place` before; a new one takes the place."""
        where = str(place.resolve())
        known = self._read()
        if known.get(where) == identity:
            return
        if where in known and not is_new:
            raise StoreForeign(
                f"another sealed store was opened at {where!r} before: put that one back; if this one was put there"
                f" on purpose, remove its line from {str(self._path)!r}"
            )
        kept = {path: one for path, one in known.items() if path != where} | {where: identity}
        self._write(dict(list(kept.items())[-limits.PINNED_STORES :]))

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                return dict(_PinFile.from_bytes(file.read(_FILE_BYTES)).stores)
        except FileNotFoundError:
            return {}
        except (OSError, InvalidInput):
            raise InvalidInput(
                field="stores of the key file", problem=f"cannot be read: restore or remove {str(self._path)!r}"
            ) from None

    def _write(self, stores: dict[str, str]) -> None:
        """Replace the file whole; where that cannot be done, the next opening tries again."""
        beside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(6)}")
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(canonical_bytes(_PinFile(stores=stores)))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)
