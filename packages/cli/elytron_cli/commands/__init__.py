"""The subcommands, a module for each family; loaded when one is called."""

__all__: list[str] = []
