"""Streams as the vendors write them: the smallest valid sequences with text, reasoning, tools, and usage."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from elytron_core.ports.chat import (
    FinishReason,
    ModelEvent,
    OpaquePart,
    ReasoningDelta,
    ReplyFinished,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)

TEXTS = ("Grüße", " aus Lissabon 🦜", ".")
ARGUMENTS = ('{"city":', '"Porto"}')


def data(*events: Any) -> bytes:
    """Return unnamed server-sent events."""
    return b"".join(f"data: {_json(event)}\n\n".encode() for event in events)


def named(*events: dict[str, Any]) -> bytes:
    """Return server-sent events named like their data."""
    return b"".join(f"event: {event['type']}\ndata: {_json(event)}\n\n".encode() for event in events)


def lines(*events: Any) -> bytes:
    """Return lines of JSON."""
    return b"".join(f"{_json(event)}\n".encode() for event in events)


def _json(event: Any) -> str:
    return event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def chat(texts: Sequence[str] = TEXTS, *, with_tool: bool = False, finish: str | None = None) -> bytes:
    """Return an answer of chat completions."""
    calls: Iterable[dict[str, Any]] = ()
    if with_tool:
        first = {"index": 0, "id": "t1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        later = [{"index": 0, "function": {"arguments": piece}} for piece in ARGUMENTS]
        calls = [_chunk({"tool_calls": [piece]}) for piece in (first, *later)]
    used = {
        "prompt_tokens": 11,
        "completion_tokens": 5,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    return b": a comment\n\n" + data(
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"reasoning_content": "Hm."}),
        *(_chunk({"content": text}) for text in texts),
        *calls,
        _chunk({}, finish or ("tool_calls" if with_tool else "stop")),
        {**_chunk({}), "choices": [], "usage": used},
        "[DONE]",
    )


def responses(texts: Sequence[str] = TEXTS, *, with_tool: bool = False, ends: str = "completed") -> bytes:
    """Return an answer of Responses: reasoning, a message, and optionally a call."""
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs1", "summary": [], "encrypted_content": "c2VhbGVk"}
    text = "".join(texts)
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    message: dict[str, Any] = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    call = {"type": "function_call", "id": "f1", "call_id": "t1", "name": "weather", "status": "completed"}
    whole = {**call, "arguments": "".join(ARGUMENTS)}
    output = [thought, message, *([whole] if with_tool else ())]
    used = {
        "input_tokens": 11,
        "output_tokens": 5,
        "total_tokens": 16,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    why = {"incomplete_details": {"reason": "max_output_tokens"}} if ends == "incomplete" else {}
    at = {"item_id": "m1", "output_index": 1, "content_index": 0}
    tool = {"item_id": "f1", "output_index": 2}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response([], "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**thought, "encrypted_content": ""}},
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs1",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Hm.",
        },
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.added", "output_index": 1, "item": {**message, "content": []}},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in texts),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
    ]
    if with_tool:
        events += [
            {"type": "response.output_item.added", "output_index": 2, "item": {**call, "arguments": ""}},
            *({"type": "response.function_call_arguments.delta", **tool, "delta": piece} for piece in ARGUMENTS),
            {
                "type": "response.function_call_arguments.done",
                **tool,
                "name": "weather",
                "arguments": whole["arguments"],
            },
            {"type": "response.output_item.done", "output_index": 2, "item": whole},
        ]
    events.append({"type": f"response.{ends}", "response": {**_response(output, ends), "usage": used, **why}})
    return named(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def _response(output: list[Any], status: str) -> dict[str, Any]:
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "output": output,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }


def messages(texts: Sequence[str] = TEXTS, *, with_tool: bool = False, stop: str | None = None) -> bytes:
    """Return an answer of Messages: thinking, a text, and optionally a call."""
    message: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 8, "cache_read_input_tokens": 3, "output_tokens": 1},
    }
    call: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    return named(
        {"type": "message_start", "message": message},
        {"type": "ping"},
        *_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "c2VhbGVk"},
        ),
        *_block(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in texts)),
        *(
            _block(2, call, *({"type": "input_json_delta", "partial_json": piece} for piece in ARGUMENTS))
            if with_tool
            else ()
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop or ("tool_use" if with_tool else "end_turn"), "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    )


def _block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def ollama(texts: Sequence[str] = TEXTS, *, with_tool: bool = False, reason: str = "stop") -> bytes:
    """Return an answer of Ollama; its call is in the last line, as some models send it."""
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    last: dict[str, Any] = {"role": "assistant", "content": ""}
    if with_tool:
        last["tool_calls"] = [{"function": {"name": "weather", "arguments": {"city": "Porto"}}}]
    told = [{"thinking": "Hm.", "content": ""}, *({"content": text} for text in texts)]
    return lines(
        *({**head, "message": {"role": "assistant", **message}, "done": False} for message in told),
        {
            **head,
            "message": last,
            "done": True,
            "done_reason": reason,
            "total_duration": 9,
            "prompt_eval_count": 11,
            "eval_count": 5,
        },
    )


@dataclass(frozen=True)
class Recorded:
    """A stream, its dialect, the bytes of its end marker, and its events."""

    dialect: str
    data: bytes
    marker: bytes
    events: tuple[ModelEvent, ...]

    @property
    def whole_at(self) -> int:
        """Return the number of bytes up to the end marker."""
        return self.data.rindex(self.marker) + len(self.marker)

    def is_whole(self, size: int, /, *, is_clean: bool) -> bool:
        """Return whether the first `size` bytes are complete: to the marker, or to the reason of a clean end."""
        reason = {"chat": b'"finish_reason": "', "messages": b'"stop_reason": "'}.get(self.dialect)
        if size >= self.whole_at or not is_clean or reason is None:
            return size >= self.whole_at
        line = self.data[:size].split(b"\n")[-1]
        payload = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        return self.data.rindex(reason) < size and (not payload or _is_json(payload))


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


_SAID = tuple(TextDelta(text=text) for text in TEXTS)
_HM = ReasoningDelta(text="Hm.")
_WHOLE = ToolCall(id="t1", name="weather", arguments="".join(ARGUMENTS))
_PIECES = tuple(ToolCallDelta(index=2, arguments=piece) for piece in ARGUMENTS)
_CALL = ToolCallDelta(index=2, id="t1", name="weather")
_DONE = ReplyFinished(reason=FinishReason.STOP)
_TOOLS = ReplyFinished(reason=FinishReason.TOOLS)
_SEALED = '{"type":"reasoning","id":"rs1","summary":[],"encrypted_content":"c2VhbGVk"}'
_SIGNED = '{"type":"thinking","thinking":"Hm.","signature":"c2VhbGVk"}'
_REASONED = OpaquePart(type="reasoning", body=_SEALED, issuer="me")
_THOUGHT = OpaquePart(type="thinking", body=_SIGNED, issuer="me")
_PLAIN = OpaquePart(type="thinking", body='{"thinking":"Hm."}', issuer="me")
_USED = TokenUsage(input_tokens=11, output_tokens=5, cached_tokens=3)
_COUNTED = TokenUsage(input_tokens=11, output_tokens=5)
_SPENT = TokenUsage(input_tokens=11, output_tokens=5, cached_tokens=3, reasoning_tokens=2)
_CHAT_CALL = (
    ToolCallDelta(index=0, id="t1", name="weather"),
    *(ToolCallDelta(index=0, arguments=piece) for piece in ARGUMENTS),
    _WHOLE,
)
_AT_ONCE = ToolCall(id="call_0", name="weather", arguments='{"city":"Porto"}')
_OLLAMA_CALL = (ToolCallDelta(index=0, id="call_0", name="weather", arguments=_AT_ONCE.arguments), _AT_ONCE)
_LAST = b'"eval_count": 5}'

RECORDED = {
    "chat": Recorded("chat", chat(), b"[DONE]", (_HM, *_SAID, _USED, _DONE)),
    "chat-tools": Recorded("chat", chat(with_tool=True), b"[DONE]", (_HM, *_SAID, *_CHAT_CALL, _USED, _TOOLS)),
    "responses": Recorded("responses", responses(), b"}", (_HM, _REASONED, *_SAID, _SPENT, _DONE)),
    "responses-tools": Recorded(
        "responses", responses(with_tool=True), b"}", (_HM, _REASONED, *_SAID, _CALL, *_PIECES, _WHOLE, _SPENT, _TOOLS)
    ),
    "messages": Recorded("messages", messages(), b"}", (_HM, _THOUGHT, *_SAID, _USED, _DONE)),
    "messages-tools": Recorded(
        "messages", messages(with_tool=True), b"}", (_HM, _THOUGHT, *_SAID, _CALL, *_PIECES, _WHOLE, _USED, _TOOLS)
    ),
    "ollama": Recorded("ollama", ollama(), _LAST, (_HM, _PLAIN, *_SAID, _COUNTED, _DONE)),
    "ollama-tools": Recorded(
        "ollama", ollama(with_tool=True), _LAST, (_HM, _PLAIN, *_SAID, *_OLLAMA_CALL, _COUNTED, _TOOLS)
    ),
}
