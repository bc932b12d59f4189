"""Stream parsers: the same events for any split of the bytes, and an end only where the provider marked it."""

from typing import Any

import pytest
from tests.models.streams import RECORDED, Recorded, chat, data, lines, messages, named, ollama, responses

from elytron_core import limits
from elytron_core.ports.chat import (
    FailureReason,
    FinishReason,
    ModelEvent,
    OpaquePart,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    TokenUsage,
    ToolCall,
)
from elytron_models import DIALECTS, StreamParser, parse_answer
from elytron_models.dialect import EventFrames
from elytron_models.dialects.chat import ChatAnswer

EACH = pytest.mark.parametrize("name", RECORDED)
CUT = ReplyFailed(reason=FailureReason.CUT)
STEP = 7
"""Bytes between two tested cuts. A stream that arrives byte by byte is cut everywhere."""


def told(dialect: str, *chunks: bytes) -> tuple[ModelEvent, ...]:
    return tuple(parse_answer(DIALECTS[dialect].parser("me"), chunks))


def events_of(recorded: Recorded, *chunks: bytes) -> tuple[ModelEvent, ...]:
    return told(recorded.dialect, *chunks)


@EACH
def test_a_complete_stream_yields_all_its_events(name: str) -> None:
    assert events_of(RECORDED[name], RECORDED[name].data) == RECORDED[name].events


@EACH
def test_a_stream_may_be_split_into_two_chunks_anywhere(name: str) -> None:
    recorded = RECORDED[name]
    for at in range(1, len(recorded.data), STEP):
        assert events_of(recorded, recorded.data[:at], recorded.data[at:]) == recorded.events, at


@EACH
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_bytes_may_arrive_one_by_one_with_every_line_ending(name: str, ending: bytes) -> None:
    recorded = RECORDED[name]
    sent = recorded.data.replace(b"\n", ending)
    assert events_of(recorded, *(sent[at : at + 1] for at in range(len(sent)))) == recorded.events


@EACH
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_truncated_stream_is_complete_only_with_its_marker_or_a_reason_and_clean_end(
    name: str, *, is_clean: bool
) -> None:
    recorded = RECORDED[name]
    for at in (*range(0, len(recorded.data), STEP), recorded.whole_at - 1, recorded.whole_at):
        parser = DIALECTS[recorded.dialect].parser("me")
        events = (*parser.feed(recorded.data[:at]), *parser.end(is_clean=is_clean))
        if recorded.is_whole(at, is_clean=is_clean):
            usage = () if at >= recorded.whole_at else tuple(e for e in recorded.events if isinstance(e, TokenUsage))
            assert set(recorded.events) - set(usage) <= set(events), at
        else:
            assert events[-1] == CUT, at
            assert events[:-1] == recorded.events[: len(events) - 1], at


@EACH
def test_events_after_the_end_are_not_read(name: str) -> None:
    recorded = RECORDED[name]
    assert events_of(recorded, recorded.data, b"{]\n\n", recorded.data) == recorded.events


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        ("chat", data("{]")),
        ("chat", data("[1]")),
        ("responses", data("x")),
        ("messages", data("x")),
        ("ollama", b"<html>\n"),
    ],
)
def test_streams_of_another_dialect_are_malformed(dialect: str, sent: bytes) -> None:
    assert told(dialect, sent) == (ReplyFailed(reason=FailureReason.MALFORMED),)


@pytest.mark.parametrize(
    ("dialect", "sent", "reason"),
    [
        ("chat", data({"error": {"message": "later", "code": "rate_limit_exceeded"}}), FailureReason.RATE_LIMITED),
        ("chat", data({"error": {"message": "no", "code": 503}}), FailureReason.UNAVAILABLE),
        ("chat", data({"error": "maximum context length is 4096"}), FailureReason.CONTEXT_TOO_LONG),
        ("responses", named({"type": "error", "code": "server_error", "message": "x"}), FailureReason.UNAVAILABLE),
        (
            "responses",
            named({"type": "response.failed", "response": {"error": {"code": "server_error"}}}),
            FailureReason.UNAVAILABLE,
        ),
        ("messages", named({"type": "error", "error": {"type": "overloaded_error"}}), FailureReason.UNAVAILABLE),
        ("ollama", lines({"error": "model runner has stopped"}), FailureReason.UNAVAILABLE),
    ],
)
def test_an_error_within_a_stream_ends_it(dialect: str, sent: bytes, reason: FailureReason) -> None:
    (event,) = told(dialect, sent, chat(), ollama())
    assert isinstance(event, ReplyFailed)
    assert event.reason is reason


@pytest.mark.parametrize(
    ("dialect", "sent", "reason"),
    [
        ("chat", chat(finish="length"), FinishReason.LENGTH),
        ("chat", chat(finish="content_filter"), FinishReason.REFUSED),
        ("chat", chat(finish="something_new"), FinishReason.INCOMPLETE),
        ("chat", chat(with_tool=True, finish="stop"), FinishReason.TOOLS),
        ("responses", responses(ends="incomplete"), FinishReason.LENGTH),
        ("messages", messages(stop="max_tokens"), FinishReason.LENGTH),
        ("messages", messages(stop="refusal"), FinishReason.REFUSED),
        ("messages", messages(stop="pause_turn"), FinishReason.INCOMPLETE),
        ("ollama", ollama(reason="length"), FinishReason.LENGTH),
        ("ollama", ollama(reason="unload"), FinishReason.INCOMPLETE),
    ],
)
def test_finish_reasons_form_a_closed_set(dialect: str, sent: bytes, reason: FinishReason) -> None:
    assert told(dialect, sent)[-1] == ReplyFinished(reason=reason)


def test_an_end_marker_ends_an_answer_without_a_reason() -> None:
    sent = data({"choices": [{"index": 0, "delta": {"content": "all"}}]}, "[DONE]")
    assert told("chat", sent) == (TextDelta(text="all"), ReplyFinished(reason=FinishReason.STOP))


def test_an_end_marker_without_an_answer_is_malformed() -> None:
    assert told("chat", data("[DONE]")) == (ReplyFailed(reason=FailureReason.MALFORMED),)


ONE = {"choices": [{"index": 0, "delta": {"content": "Seven."}, "finish_reason": None}]}
STOPPED: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
SEVEN = (TextDelta(text="Seven."), ReplyFinished(reason=FinishReason.STOP))
COUNTED = TokenUsage(input_tokens=1, output_tokens=2)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (data(ONE, STOPPED), SEVEN),
        (data(ONE, STOPPED, USAGE), (SEVEN[0], COUNTED, SEVEN[1])),
        (data(ONE, STOPPED, {"choices": []}), SEVEN),
        (data(ONE, STOPPED).replace(b"\n", b"\r\n"), SEVEN),
        (b": ping\n\n" + data(ONE) + b": keep-alive\n\n" + data(STOPPED) + b":\n\n", SEVEN),
        (data(ONE, STOPPED, "[DONE]").replace(b"data: ", b"data:"), SEVEN),
        (data(ONE, STOPPED).rstrip(b"\n"), SEVEN),
        (data(ONE, "[DONE]"), SEVEN),
        (lines(ONE, STOPPED), SEVEN),
        (lines({"choices": [{"index": 0, "message": {"content": "Seven."}, "finish_reason": "stop"}]}), SEVEN),
        (data(ONE, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
         (SEVEN[0], ReplyFinished(reason=FinishReason.LENGTH))),
        (data(ONE, STOPPED)[:-20], (SEVEN[0], CUT)),
        (data(ONE), (SEVEN[0], CUT)),
    ],
)  # fmt: skip
def test_other_ways_of_ending_a_chat_are_understood(sent: bytes, expected: tuple[ModelEvent, ...]) -> None:
    assert told("chat", sent) == expected


def test_an_ollama_line_with_a_reason_and_a_clean_end_is_complete() -> None:
    sent = lines({"message": {"content": "Seven."}}, {"message": {"content": ""}, "done_reason": "stop"})
    assert told("ollama", sent) == SEVEN


def test_responses_may_end_with_done_and_its_status() -> None:
    begun = {"type": "response.output_text.delta", "output_index": 0, "delta": "Seven."}
    done = {"type": "response.done", "response": {"status": "completed"}}
    assert told("responses", named(begun, done)) == SEVEN
    failed = {"type": "response.done", "response": {"status": "failed", "error": {"code": "server_error"}}}
    assert told("responses", named(begun, failed))[-1] == ReplyFailed(reason=FailureReason.UNAVAILABLE)


def pieces(dialect: str, *texts: str) -> bytes:
    """Return an unfinished stream of `dialect` with one event per text, which is JSON without its quotes."""
    forms = {
        "chat": 'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n',
        "responses": 'data: {"type":"response.output_text.delta","output_index":0,"delta":"%s"}\n\n',
        "messages": 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}\n\n',
        "ollama": '{"message":{"content":"%s"}}\n',
    }
    start = named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    body = "".join(forms[dialect] % text for text in texts).encode("utf-8", "surrogateescape")
    return (start if dialect == "messages" else b"") + body


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "texts",
    [
        (r"Petrel \ud83d", r"\ude00!"),
        (r"Petrel \ud83d", "", r"\ude00!"),
        ("Petrel \udcf0", "\udc9f\udc98", "\udc80!"),
        ("Petrel \udcf0\udc9f", "\udc98\udc80!"),
    ],
    ids=["pair", "pair around an empty text", "bytes one by one", "bytes"],
)
def test_a_character_split_over_events_is_joined(dialect: str, texts: tuple[str, ...]) -> None:
    events = told(dialect, pieces(dialect, *texts))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Petrel \U0001f600!"


def test_pieces_of_characters_are_joined_within_their_own_text() -> None:
    def delta(index: int, text: str) -> str:
        call = f'{{"index":{index},"function":{{"arguments":"{text}"}}}}'
        return f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}'

    sent = data(delta(0, r"\ud83d"), delta(1, r"\ud83e"), delta(0, r"\ude00"), delta(1, r"\udd8a"), STOPPED)
    calls = [event.arguments for event in told("chat", sent) if isinstance(event, ToolCall)]
    assert calls == ["\U0001f600", "\U0001f98a"]


@pytest.mark.parametrize("text", ["a\udcff", r"a\ude00", "a\udcf0\udc9fb"])
def test_invalid_bytes_become_one_replacement_character(text: str) -> None:
    events = told("chat", pieces("chat", text))
    assert "\ufffd" in "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_message_that_stops_within_a_block_is_malformed() -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "half"}}
    assert told("messages", named(start, {"type": "message_stop"}))[-1] == ReplyFailed(reason=FailureReason.MALFORMED)


def test_calls_without_an_index_are_distinguished_by_id() -> None:
    pieces: list[dict[str, Any]] = [
        {"id": "a", "function": {"name": "one", "arguments": "{"}},
        {"function": {"arguments": "}"}},
        {"id": "b", "function": {"name": "two", "arguments": "{}"}},
    ]
    sent = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    found = [event for event in told("chat", data(*sent, end, "[DONE]")) if isinstance(event, ToolCall)]
    assert found == [ToolCall(id="a", name="one", arguments="{}"), ToolCall(id="b", name="two", arguments="{}")]


def test_an_answer_that_arrives_only_with_its_end_is_reported_completely() -> None:
    text = {"type": "output_text", "text": "All at once"}
    call = {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": "{}"}
    output = [{"type": "message", "content": [text]}, call]
    assert told("responses", named({"type": "response.completed", "response": {"output": output}})) == (
        TextDelta(text="All at once"),
        ToolCall(id="t1", name="weather", arguments="{}"),
        ReplyFinished(reason=FinishReason.TOOLS),
    )


def test_an_oversized_event_ends_the_answer() -> None:
    parser = StreamParser(EventFrames(64), ChatAnswer())
    assert parse_answer(parser, [b"data: " + b"x" * 40, b"x" * 40]) == [ReplyFailed(reason=FailureReason.TOO_LARGE)]


def test_many_lines_of_one_event_are_bounded_together() -> None:
    parser = StreamParser(EventFrames(64), ChatAnswer())
    assert parse_answer(parser, [b"data: " + b"x" * 40 + b"\n"] * 2) == [ReplyFailed(reason=FailureReason.TOO_LARGE)]


def test_an_oversized_stream_ends_the_answer() -> None:
    parser = StreamParser(EventFrames(), ChatAnswer(), limit=100)
    assert parse_answer(parser, [b": ping\n\n"] * 20) == [ReplyFailed(reason=FailureReason.TOO_LARGE)]


def test_a_lone_surrogate_does_not_break_the_text() -> None:
    sent = data('{"choices":[{"index":0,"delta":{"content":"a\\ud83d"},"finish_reason":"stop"}]}', "[DONE]")
    assert told("chat", sent) == (TextDelta(text="a"), ReplyFinished(reason=FinishReason.STOP))


def test_a_byte_order_mark_and_unknown_fields_are_ignored() -> None:
    sent = b"\xef\xbb\xbf" + b"id: 7\nretry: 10\n\n" + chat(("Hi",))
    assert told("chat", sent) == told("chat", chat(("Hi",)))


def test_geminis_call_signature_is_a_separate_item() -> None:
    signed = {"google": {"thought_signature": "c2lnbmVk"}}
    call = {"id": "t1", "function": {"name": "weather", "arguments": "{}"}, "extra_content": signed}
    sent = data({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}, "[DONE]")
    extra = '{"id":"t1","extra_content":{"google":{"thought_signature":"c2lnbmVk"}}}'
    assert told("chat", sent)[1:] == (
        ToolCall(id="t1", name="weather", arguments="{}"),
        OpaquePart(type="tool_call_extra", body=extra, issuer="me"),
        ReplyFinished(reason=FinishReason.TOOLS),
    )


def test_every_choice_needs_its_reason_before_a_clean_end() -> None:
    one = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}
    other = {"index": 1, "delta": {"content": "b"}, "finish_reason": None}
    assert told("chat", data({"choices": [one, other]}))[-1] == CUT
    ended: dict[str, Any] = {"index": 1, "delta": {}, "finish_reason": "stop"}
    sent = data({"choices": [one, other]}, {"choices": [ended]})
    assert told("chat", sent) == (TextDelta(text="a"), ReplyFinished(reason=FinishReason.STOP))


def test_an_answer_aborted_by_a_router_is_a_failure() -> None:
    sent = data({"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": "error"}]}, "[DONE]")
    assert told("chat", sent) == (ReplyFailed(reason=FailureReason.UNAVAILABLE),)


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        ("chat", data({"choices": [{"index": 0, "delta": {"refusal": "No."}, "finish_reason": "stop"}]}, "[DONE]")),
        (
            "responses",
            named(
                {"type": "response.refusal.delta", "output_index": 0, "delta": "No."},
                {"type": "response.completed", "response": {}},
            ),
        ),
        (
            "responses",
            named(
                {
                    "type": "response.completed",
                    "response": {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]},
                }
            ),
        ),
    ],
)
def test_a_refusal_is_text_and_the_reason_of_the_end(dialect: str, sent: bytes) -> None:
    assert told(dialect, sent) == (TextDelta(text="No."), ReplyFinished(reason=FinishReason.REFUSED))


def test_too_many_calls_end_the_answer() -> None:
    call: dict[str, Any] = {"function": {"name": "x", "arguments": {}}}
    many = [call] * (limits.MODEL_TOOL_CALLS + 1)
    assert told("ollama", lines({"message": {"tool_calls": many}}))[-1] == ReplyFailed(reason=FailureReason.TOO_LARGE)
    pieces = [{"index": at, "id": f"t{at}", "function": {"name": "x"}} for at in range(limits.MODEL_TOOL_CALLS + 1)]
    sent = data({"choices": [{"index": 0, "delta": {"tool_calls": pieces}}]})
    assert told("chat", sent)[-1] == ReplyFailed(reason=FailureReason.TOO_LARGE)


def test_unknown_items_are_preserved_for_their_issuer() -> None:
    redacted = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    sent = named(
        {"type": "content_block_start", "index": 0, "content_block": redacted},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    )
    kept = OpaquePart(type="redacted_thinking", body='{"type":"redacted_thinking","data":"c2VhbGVk"}', issuer="me")
    assert told("messages", sent)[0] == kept
    item = {"type": "compaction", "id": "c1"}
    sent = named({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert told("responses", sent)[0] == OpaquePart(
        type="compaction", body='{"type":"compaction","id":"c1"}', issuer="me"
    )


def test_a_delta_without_a_block_is_malformed() -> None:
    delta = {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}
    assert told("messages", named(delta)) == (ReplyFailed(reason=FailureReason.MALFORMED),)
