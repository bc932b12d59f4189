"""The streams of a server: events for browsers, and the WebSocket."""

from elytron_adapter.entry import Entrance
from elytron_adapter.surface import Surface
from elytron_http_shell.streams import events, websocket
from elytron_http_shell.streams.subscriptions import StreamBounds, Streams


def streams(entrance: Entrance, /, *, bounds: StreamBounds | None = None) -> tuple[Surface, ...]:
    """Return the surfaces at `/v1/events` and `/v1/ws`."""
    shared = Streams(entrance, bounds=bounds)
    return (*events.surfaces(shared), websocket.surface(shared))
