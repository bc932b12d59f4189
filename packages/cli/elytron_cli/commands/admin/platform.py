"""Capabilities of this product, by profile."""

import click

from elytron_cli.input.options import Command, Group, common, common_but_profile
from elytron_cli.input.profile_names import ProfileChoice
from elytron_cli.runner import output, run
from elytron_cli.session import Session
from elytron_cli.tables.common import pairs
from elytron_cli.terminal.output import Output
from elytron_core.contracts.admin.platform import Capability, MemoryCapabilitiesRequest, MemoryCapabilityCatalog
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import ProfileName
from elytron_core.policy.host.capabilities import snapshot


@click.group("platform", cls=Group)
@common
def platform() -> None:
    """Say what a memory can do: in a profile, or here."""


@platform.command("capability-snapshot", cls=Command)
@click.option(
    "--profile",
    type=ProfileChoice(),
    default=ProfileName.SERVER_DEV_FULL.value,
    show_default=True,
    help="The kind of place.",
)
@common_but_profile
def capability_snapshot(*, profile: str) -> None:
    """Print what a profile can do as this version ships it: the same on every machine. No store is opened."""
    made = snapshot(ProfileName(profile))
    output().report(made, lambda console: pairs(console, _rows(made.catalog)))


@platform.command("capabilities", cls=Command)
@common
def capabilities() -> int | None:
    """Say what can be done with this store, here and now."""

    async def work(session: Session, out: Output) -> None:
        catalog = await session.call(MemoryCapabilitiesRequest(), MemoryCapabilityCatalog)
        out.report(catalog, lambda console: pairs(console, _rows(catalog)))

    return run(work)


def _rows(catalog: MemoryCapabilityCatalog) -> list[tuple[str, str]]:
    rows = [("profile", catalog.profile.value)]
    for name, value in catalog:
        if isinstance(value, Capability):
            rows.append((name.rstrip("_"), _told(value)))
        elif isinstance(value, Value):
            rows += [(f"{name}.{inner.rstrip('_')}", _told(found)) for inner, found in value if _is_capability(found)]
    return rows


def _is_capability(value: object) -> bool:
    return isinstance(value, Capability)


def _told(found: Capability) -> str:
    """Return yes, or what says no."""
    if found.visible:
        return "yes"
    missing = [name for name, says_yes in found if name != "visible" and not says_yes]
    return f"no: {', '.join(missing)}"
