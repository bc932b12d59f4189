"""Encryption of previews: for browsers by RFC 8291 with VAPID (RFC 8292), for webhooks by AES-256-GCM.

Nothing here asks anyone. Keys come in as bytes, so that published vectors can be held against it.
"""

import base64
import hashlib
import hmac
import json
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from elytron_core.errors import InvalidInput

CURVE: Final = ec.SECP256R1()
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_RECORD: Final = 4_096
_LAST_RECORD: Final = b"\x02"
SALT_BYTES: Final = 16
AUTH_BYTES: Final = 16
POINT_BYTES: Final = 65
NONCE_BYTES: Final = 12
KEY_BYTES: Final = 32


def private_key(seed: bytes, /) -> ec.EllipticCurvePrivateKey:
    """Return the key of P-256 that a seed of at least 48 bytes gives."""
    return ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, CURVE)


def public_point(key: ec.EllipticCurvePrivateKey, /) -> bytes:
    """Return the public key of a key, as an uncompressed point."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def require_point(point: bytes, /, *, field: str) -> None:
    """Raise InvalidInput for bytes that are no public key of P-256."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, point)
    except ValueError:
        raise InvalidInput(field=field, problem="is no public key of the curve P-256") from None


def encrypt_push(plain: bytes, /, *, point: bytes, auth: bytes, key: ec.EllipticCurvePrivateKey, salt: bytes) -> bytes:
    """Return the body of a message to a browser's push service. `key` is used for this message alone."""
    theirs, ours = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, point), public_point(key)
    shared = key.exchange(ec.ECDH(), theirs)
    secret = _expand_key(_extract_key(auth, shared), b"WebPush: info\x00" + point + ours, 32)
    pseudo_random = _extract_key(salt, secret)
    content_key = _expand_key(pseudo_random, b"Content-Encoding: aes128gcm\x00", 16)
    nonce = _expand_key(pseudo_random, b"Content-Encoding: nonce\x00", NONCE_BYTES)
    sealed = AESGCM(content_key).encrypt(nonce, plain + _LAST_RECORD, None)
    return salt + _RECORD.to_bytes(4) + len(ours).to_bytes(1) + ours + sealed


def vapid_header(origin: str, /, *, key: ec.EllipticCurvePrivateKey, expires_s: int, contact: str | None) -> str:
    """Return the `Authorization` by which a push service knows this server."""
    claims: dict[str, str | int] = {"aud": origin, "exp": expires_s}
    if contact is not None:
        claims["sub"] = contact
    signed = b".".join(_base64url_text(json.dumps(part, separators=(",", ":")).encode()) for part in (_HEADER, claims))
    first, second = decode_dss_signature(key.sign(signed, ec.ECDSA(SHA256())))
    token = signed + b"." + _base64url_text(first.to_bytes(32) + second.to_bytes(32))
    return f"vapid t={token.decode()}, k={_base64url_text(public_point(key)).decode()}"


def seal_preview(plain: bytes, /, *, key: bytes, nonce: bytes, message_id: str) -> bytes:
    """Return the body of a webhook: the nonce, then the ciphertext, which is bound to the message's id."""
    return nonce + AESGCM(key).encrypt(nonce, plain, message_id.encode())


def sign_body(body: bytes, /, *, message_id: str, timestamp_s: int, secret: bytes) -> str:
    """Return the signature of a webhook, in the form of those that the server takes."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp_s, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def decode_base64url(text: str, /, *, field: str, size: int) -> bytes:
    """Return the bytes of base64url with or without padding. Raises InvalidInput for another size, or none."""
    try:
        found = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except ValueError:
        found = b""
    if len(found) != size:
        raise InvalidInput(field=field, problem=f"is no base64url of {size} bytes")
    return found


_HEADER: Final = {"typ": "JWT", "alg": "ES256"}


def _base64url_text(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _extract_key(salt: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt, secret, hashlib.sha256)


def _expand_key(key: bytes, info: bytes, size: int) -> bytes:
    """Return the first block of HKDF-Expand, which is enough here."""
    return hmac.digest(key, info + b"\x01", hashlib.sha256)[:size]
