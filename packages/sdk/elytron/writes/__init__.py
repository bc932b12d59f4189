"""How each plane's writes become one batch."""

__all__: list[str] = []
