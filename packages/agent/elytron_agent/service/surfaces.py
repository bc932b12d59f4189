"""The agent's routes as surfaces of a server."""

from collections.abc import Iterable
from dataclasses import replace

from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.surface import Family, Surface
from elytron_agent.service.agent_service import AgentService
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.routes.agent_routes import agent_routes
from elytron_agent.service.routes.event_routes import event_routes
from elytron_agent.service.routes.memory_routes import memory_routes


def agent_surfaces(settings: ServiceSettings, /) -> Family:
    """Return the family of the agent's routes."""

    def family(entrance: CallerEntrance) -> Iterable[Surface]:
        service = AgentService(entrance, settings)
        surfaces = [*agent_routes(service), *memory_routes(service), *event_routes(service)]
        first = replace(surfaces[0], running=service.running, figures=service.figures)
        return (first, *surfaces[1:])

    return family
