"""Child keys of a seed: BIP-32 private derivation, BIP-85 entropy."""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HARDENED: Final = 1 << 31
_ORDER: Final = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_HALF: Final = 32
_ENTROPY_ROOT: Final = 83696968 | HARDENED
_HEX_BYTES: Final = 128169 | HARDENED


class PrivateNode(NamedTuple):
    """A private key of the tree, with the chain code for deriving its children."""

    key: bytes
    chain: bytes

    def __repr__(self) -> str:
        return "PrivateNode()"

    @classmethod
    def of_seed(cls, seed: bytes, /) -> Self:
        """Return the root of `seed`. Raises ValueError for the one seed in 2^127 that has none."""
        digest = hmac.digest(b"Bitcoin seed", seed, hashlib.sha512)
        if not 0 < int.from_bytes(digest[:_HALF], "big") < _ORDER:
            raise ValueError("this seed has no key")
        return cls(digest[:_HALF], digest[_HALF:])

    @property
    def public(self) -> bytes:
        """Return the compressed point of the key."""
        private_key = ec.derive_private_key(int.from_bytes(self.key, "big"), ec.SECP256K1())
        return private_key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)

    def child(self, index: int, /) -> Self:
        """Return the child `index`, hardened from `HARDENED` on. Raises ValueError if there is none."""
        assert 0 <= index < 2 * HARDENED
        key_bytes = b"\0" + self.key if index >= HARDENED else self.public
        digest = hmac.digest(self.chain, key_bytes + index.to_bytes(4, "big"), hashlib.sha512)
        step = int.from_bytes(digest[:_HALF], "big")
        value = (step + int.from_bytes(self.key, "big")) % _ORDER
        if step >= _ORDER or value == 0:
            raise ValueError("there is no child of this index")
        return type(self)(value.to_bytes(_HALF, "big"), digest[_HALF:])

    def descend(self, path: Iterable[int], /) -> Self:
        """Return the node at `path` below this one."""
        node = self
        for index in path:
            node = node.child(index)
        return node


def node_entropy(node: PrivateNode, /) -> bytes:
    """Return the 64 bytes of entropy of BIP-85 at a node."""
    return hmac.digest(b"bip-entropy-from-k", node.key, hashlib.sha512)


def child_secret(root: PrivateNode, /, *, size: int, index: int) -> bytes:
    """Return the secret `index` of 16 to 64 bytes below `root`: the application HEX of BIP-85."""
    assert 16 <= size <= 64
    path = (_ENTROPY_ROOT, _HEX_BYTES, size | HARDENED, index | HARDENED)
    return node_entropy(root.descend(path))[:size]
