"""Tags that are equal where their texts are: AES-SIV (RFC 5297), so that a filter needs no decryption."""

import base64
import binascii
import hashlib
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from elytron_core.errors import SealBroken

_TAG_WHAT: Final = "a sealed tag"


class TagCipher:
    """Seals tags of one space. Equal tags have equal seals; those of two spaces have nothing in common."""

    __slots__ = ("_cipher",)

    def __init__(self, secret: bytes, /) -> None:
        """Take a secret that nothing else uses; the 64 bytes of key are its SHA-512."""
        self._cipher = AESSIV(hashlib.sha512(secret).digest())

    def __repr__(self) -> str:
        return "TagCipher()"

    def seal(self, tag: str, /) -> str:
        """Return the seal of `tag`, trimmed and in lower case, as base64."""
        plain = tag.strip().lower().encode("utf-8")
        assert plain
        return base64.b64encode(self._cipher.encrypt(plain, None)).decode("ascii")

    def open(self, sealed: str, /) -> str:
        """Return the tag in `sealed`. Raises SealBroken for anything else than what `seal` made."""
        try:
            return self._cipher.decrypt(base64.b64decode(sealed, validate=True), None).decode("utf-8")
        except (InvalidTag, ValueError, binascii.Error):
            raise SealBroken(what=_TAG_WHAT) from None
