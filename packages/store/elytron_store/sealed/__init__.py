"""A store over a store that encrypts what it is given, and the providers of its key-encryption keys.

`sealed.store.SealedStore` wraps any engine; `sealed.providers` holds `LocalKeys`, `FileKeys` and `EnvironmentKeys`.
Nothing is imported here: the cipher library loads when one of the two is asked for.

What it promises, against a reader and writer of every byte of the inner store without a key-encryption key:

- It reads no body, blob, answer, space name, idempotency key or request digest. It sees the number of spaces, documents
  and blobs, their sizes, times and keys (ids and keyed digests, by the port's rule), and journal entries.
- Records altered, cut, swapped or moved (between keys, collections, revisions, spaces, stores) are refused.
- Deletion, and an older state of the whole store or of one blob put back, are not noticed.

Equality: names and idempotency keys are replaced by keyed tags, equal where their values are equal within one space,
unrelated between spaces. For filters over content callers make their own tags from the space's secret.

Keys: one data key per space and version, wrapped by a key-encryption key that lives outside the store. Destroying a
space's keys makes its ciphertext unreadable wherever it was copied, but a copy of the store that is older than the
destruction holds the wrapped keys too: it stays readable to who has the key-encryption key of its time. To close
that, rotate the key-encryption key after the destruction and throw the old one away.
"""

__all__: list[str] = []
