"""Names of profiles on the command line."""

from collections.abc import Callable

import click

from elytron_cli.input.options import Body, OneOf
from elytron_core.profiles import ProfileName


class _ProfileChoice(OneOf[ProfileName]):
    """The name of a profile, also with the prefix `profile-`, by which some hosts call it."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return the short name."""
        return super().normalize_choice(choice, ctx).removeprefix("profile-")


def profile_option(told: str, /) -> Callable[[Body], Body]:
    """Give a command a `--profile` of its own."""
    usual = ProfileName.SERVER_DEV_FULL.value
    return click.option("--profile", type=_ProfileChoice(ProfileName), default=usual, show_default=True, help=told)
