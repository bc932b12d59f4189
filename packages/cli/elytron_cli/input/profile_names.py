"""Names of profiles on the command line."""

import click

from elytron_core.planes.knowledge.profiles import ProfileName


class ProfileChoice(click.Choice[str]):
    """The name of a profile, also with the prefix `profile-`, by which some hosts call it."""

    def __init__(self) -> None:
        super().__init__([name.value for name in ProfileName])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the short name."""
        return super().convert(value.removeprefix("profile-"), param, ctx)
