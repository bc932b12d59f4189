"""Reports of erased users, signed so that a third party can check them."""

import hashlib

from elytron_core.canonical import canonical_bytes
from elytron_core.model import Value


class ErasedUser(Value):
    """The removed documents of a user, space by space: collections with the count of their documents."""

    user_id: str
    at: int
    removed: dict[str, dict[str, int]]


class SignedReport(Value):
    """A report with an Ed25519 signature over its canonical JSON, and the public key that checks it; both in hex."""

    report: ErasedUser
    signature: str
    public_key: str


def sign(report: ErasedUser, secret: bytes, /) -> SignedReport:
    """Return `report` signed under a key made from `secret`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = hashlib.blake2b(b"elytron gateway report", key=secret[:64], digest_size=32).digest()
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return SignedReport(
        report=report,
        signature=key.sign(canonical_bytes(report)).hex(),
        public_key=key.public_key().public_bytes_raw().hex(),
    )


def is_genuine(signed: SignedReport, public_key: str, /) -> bool:
    """Return whether the signature of `signed` is by the holder of `public_key`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signed.signature), canonical_bytes(signed.report))
    except (InvalidSignature, ValueError):
        return False
    return True
