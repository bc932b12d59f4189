"""A user's own secret: the space that only its words or passphrase open."""

__all__: list[str] = []
