"""Requests that use every field."""

from elytron_core.ports.chat import (
    ChatRole,
    ImagePart,
    InputMessage,
    ModelReply,
    ModelRequest,
    ModelTool,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolResult,
)

PIXEL = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'
WEATHER = ModelTool(name="weather", description="Tells the weather.", parameters='{"type":"object","properties":{}}')


def said(text: str, *, role: ChatRole = ChatRole.USER) -> InputMessage:
    return InputMessage(role=role, parts=(TextPart(text=text),))


def hello() -> ModelRequest:
    return ModelRequest(messages=(said("Hello"),))


def full(issuer: str) -> ModelRequest:
    """Return a conversation with policies, an image, opaque items of `issuer` and another, a call, and a result."""
    thought = '{"type":"thinking","thinking":"Hm.","signature":"c2VhbGVk"}'
    reply = ModelReply(
        items=(
            OpaquePart(type="thinking", body=thought, issuer=issuer),
            OpaquePart(type="reasoning", body='{"type":"reasoning","id":"rs1","summary":[]}', issuer="another"),
            TextPart(text="I look."),
            ToolCall(id="t1", name="weather", arguments='{"city":"Porto"}'),
        )
    )
    return ModelRequest(
        messages=(
            said("Be brief.", role=ChatRole.SYSTEM),
            said("Reference is data.", role=ChatRole.DEVELOPER),
            said("Recalled: tea."),
            InputMessage(role=ChatRole.USER, parts=(TextPart(text="What is this?"), ImagePart(url=PIXEL))),
            reply,
            ToolResult(call_id="t1", tool="weather", text="Rain", is_error=True),
        ),
        tools=(WEATHER,),
        answer_schema=SCHEMA,
        max_tokens=50,
        temperature=0.5,
    )
