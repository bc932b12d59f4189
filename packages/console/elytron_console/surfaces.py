"""The console as a family of surfaces: its page and parts, and the routes that they ask."""

from collections.abc import Iterable
from dataclasses import replace

from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import CallTransport
from elytron_adapter.identity.access_keys import AccessKeys
from elytron_adapter.surface import Family, Surface
from elytron_console.console_page import page_surfaces
from elytron_console.host import ConsoleHost
from elytron_console.journal import JournalReader
from elytron_console.routes.agent_pages import agent_page_surfaces
from elytron_console.routes.ego_graph import ego_graph_surface
from elytron_console.routes.erasures import erasure_surface
from elytron_console.routes.member_routes import (
    journal_surfaces,
    operation_surfaces,
    path_surfaces,
    session_surfaces,
    skill_surfaces,
)
from elytron_console.routes.model_costs import spending_surfaces
from elytron_console.routes.operator_routes import device_surfaces, server_surfaces, smoke_surfaces
from elytron_console.routes.transfers import transfer_surfaces
from elytron_console.sessions import ConsoleDoor


def console_surfaces(host: ConsoleHost | None = None, /) -> Family:
    """Return the family that shows the console of `host`."""
    shown = host or ConsoleHost()

    def family(entrance: CallerEntrance) -> Iterable[Surface]:
        keys = AccessKeys(entrance.dispatcher.runtime.context)
        door, journal = ConsoleDoor(entrance), JournalReader(entrance, keys)
        agents = tuple(shown.agents(entrance)) if shown.agents is not None else ()
        surfaces = (
            *page_surfaces(),
            *session_surfaces(entrance, door, keys, has_agents=bool(agents)),
            *path_surfaces(entrance, door),
            *operation_surfaces(entrance, door),
            *journal_surfaces(door, journal),
            erasure_surface(entrance, door),
            ego_graph_surface(entrance, door),
            *transfer_surfaces(entrance, door, journal),
            *skill_surfaces(entrance, door),
            *agent_page_surfaces(door, journal, agents),
            *spending_surfaces(entrance, door, journal),
            *server_surfaces(entrance, door, shown, keys, journal),
            *smoke_surfaces(entrance, door, shown),
            *device_surfaces(door, keys),
        )
        return tuple(replace(surface, transport=CallTransport.CONSOLE.value) for surface in surfaces)

    return family
