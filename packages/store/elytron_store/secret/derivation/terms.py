"""The terms by which a user's key is made of a secret, which are stored."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, model_validator

from elytron_core.model import Value

SALT_BYTES: Final = 16
MEMORY_KIB_MAX: Final = 256 * 1024


class SecretKind(StrEnum):
    """Form of a user's secret."""

    WORDS = "words"
    PASSPHRASE = "passphrase"  # noqa: S105 - the word, not one of them


class KeyDerivation(StrEnum):
    """Function from a secret to a key."""

    BIP85 = "bip85"
    ARGON2ID = "argon2id"
    SCRYPT = "scrypt"


class DerivationTerms(Value):
    """Parameters of a derivation, within bounds, so that altered ones cannot exhaust a server."""

    model_config = ConfigDict(strict=True, ser_json_bytes="base64", val_json_bytes="base64")

    function: KeyDerivation
    index: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """Number of the child key of words."""
    salt: Annotated[bytes, Field(max_length=64)] = b""
    memory_kib: Annotated[int, Field(ge=0, le=MEMORY_KIB_MAX)] = 0
    rounds: Annotated[int, Field(ge=0, le=16)] = 0
    lanes: Annotated[int, Field(ge=0, le=16)] = 0

    @model_validator(mode="after")
    def _require_strength(self) -> Self:
        if self.function is KeyDerivation.BIP85:
            return self
        if len(self.salt) < SALT_BYTES or self.memory_kib < 8 * 1024 or not (self.rounds and self.lanes):
            raise ValueError("weaker than any that is made")
        return self

    @property
    def kind(self) -> SecretKind:
        """Return the form of the secret."""
        return SecretKind.WORDS if self.function is KeyDerivation.BIP85 else SecretKind.PASSPHRASE
