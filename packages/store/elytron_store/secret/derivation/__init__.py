"""Key derivation from words and passphrases: BIP-39, BIP-32, BIP-85, Argon2id and scrypt."""

__all__: list[str] = []
