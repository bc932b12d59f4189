"""The `elytron` command."""

__all__: list[str] = []
