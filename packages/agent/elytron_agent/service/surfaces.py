"""The surfaces of the agent service."""

from collections.abc import Iterable

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.surface import Family, Surface, build_surfaces
from elytron_agent.service.companion import ServiceSettings


def agent_surfaces(settings: ServiceSettings, /) -> Family:
    """Return the family of agent routes."""

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        from elytron_agent.service.agent_service import AgentService
        from elytron_agent.service.routes.agent_calls import agent_app
        from elytron_agent.service.routes.agent_routes import AGENT_ROUTES, page_surfaces
        from elytron_agent.service.routes.event_routes import EVENT_ROUTES
        from elytron_agent.service.routes.memory_routes import MEMORY_ROUTES
        from elytron_agent.service.routes.response_routes import RESPONSE_ROUTES

        service = AgentService(admission, settings)
        app_of, routes = agent_app(service), (*AGENT_ROUTES, *MEMORY_ROUTES, *EVENT_ROUTES)
        return (
            *build_surfaces(routes, app_of, group="agent", running=service.running, figures=service.figures),
            *page_surfaces(service),
            *build_surfaces(RESPONSE_ROUTES, app_of, group="agent"),
        )

    return family
