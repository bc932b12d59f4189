"""Capabilities of this product, by profile."""

from typing import TYPE_CHECKING

import click

from elytron_cli.input.options import Group, common, common_but_profile
from elytron_cli.input.profile_names import profiled
from elytron_cli.runner import answer, output
from elytron_cli.tables.common import pairs
from elytron_core.contracts.admin.platform import Capability, MemoryCapabilitiesRequest, MemoryCapabilityCatalog
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import ProfileName
from elytron_core.policy.host.capabilities import snapshot

if TYPE_CHECKING:
    from rich.console import Console


@click.group("platform", cls=Group)
@common
def platform() -> None:
    """Say what a memory can do: in a profile, or here."""


@platform.command("capability-snapshot")
@profiled("The kind of place.")
@common_but_profile
def capability_snapshot(*, profile: ProfileName) -> None:
    """Print what a profile can do as this version ships it: the same on every machine. No store is opened."""
    output().report(snapshot(profile), lambda console, made: _shown(console, made.catalog))


@platform.command("capabilities")
@common
def capabilities() -> int | None:
    """Say what can be done with this store, here and now."""
    return answer(MemoryCapabilitiesRequest(), _shown)


def _shown(console: "Console", catalog: MemoryCapabilityCatalog) -> None:
    rows = [("profile", catalog.profile.value)]
    for name, value in catalog:
        if isinstance(value, Capability):
            rows.append((name.rstrip("_"), _told(value)))
        elif isinstance(value, Value):
            rows += [(f"{name}.{inner.rstrip('_')}", _told(found)) for inner, found in value if _is_capability(found)]
    pairs(console, rows)


def _is_capability(value: object) -> bool:
    return isinstance(value, Capability)


def _told(found: Capability) -> str:
    """Return yes, or what says no."""
    if found.visible:
        return "yes"
    missing = [name for name, says_yes in found if name != "visible" and not says_yes]
    return f"no: {', '.join(missing)}"
