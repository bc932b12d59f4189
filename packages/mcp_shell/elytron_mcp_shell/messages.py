"""Messages of JSON-RPC, judged before MCP's library sees them."""

from pydantic import ValidationError

from elytron_core.errors import InvalidInput
from elytron_core.strict_json import Json


def require_message(sent: Json, /) -> None:
    """Raise InvalidInput for what is no JSON-RPC message: the SDK would answer it with what it read."""
    from mcp_types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_python(sent, by_name=False)
    except ValidationError:
        raise InvalidInput(field="body", problem="is no JSON-RPC message") from None
