"""The subcommands, one module per family, each loaded when it is called."""

__all__: list[str] = []
