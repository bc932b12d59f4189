"""Server-sent events and the WebSocket."""
