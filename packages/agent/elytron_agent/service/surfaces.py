"""The surfaces of the agent service."""

from collections.abc import Iterable
from dataclasses import replace

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.surface import Family, Surface
from elytron_agent.service.companion import ServiceSettings


def agent_surfaces(settings: ServiceSettings, /) -> Family:
    """Return the family of the agent's routes."""

    def family(entrance: CallerAdmission) -> Iterable[Surface]:
        from elytron_agent.service.agent_service import AgentService
        from elytron_agent.service.routes.agent_routes import agent_routes, page_routes
        from elytron_agent.service.routes.event_routes import event_routes, push_routes, schedule_routes
        from elytron_agent.service.routes.memory_routes import memory_routes
        from elytron_agent.service.routes.response_routes import conversation_routes, response_routes

        service = AgentService(entrance, settings)
        families = (
            *(agent_routes, memory_routes, event_routes, schedule_routes, push_routes, page_routes),
            *(response_routes, conversation_routes),
        )
        first, *others = [surface for family in families for surface in family(service)]
        return (replace(first, running=service.running, figures=service.figures), *others)

    return family
