"""A space under its user's own secret: 12 words or a passphrase, which the store and its operator do not have.

`secret.store.SecretStore` wraps any engine, sealed as a whole or not, and seals such spaces with the cipher, the keys
and the guard of `elytron_store.sealed`. Without the secret it answers `space_locked`. Nothing is imported here.
"""

__all__: list[str] = []
