"""The assembler: any oversized part of a request is cut to fit, and reported."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import Instant
from elytron_core.ports.chat import (
    InputMessage,
    Message,
    ModelReply,
    ModelTool,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolResult,
)
from elytron_turn.assembler import (
    SHARES,
    AssembledRequest,
    ContextParts,
    RequestDraft,
    RequestPart,
    assemble_request,
    cut_fenced,
    cut_messages,
    cut_tools,
)
from elytron_turn.context import (
    ShownBlock,
    StableContext,
    TailParts,
    WindowTurn,
    fenced_outside,
    reference_message,
    summary_text,
)
from elytron_turn.memory import RecalledMemory
from elytron_turn.sizes import bytes_of, cut_middle, share_room, text_bytes, within_tokens

AT = Instant(1_780_000_000_000)
TIDES = "The tide table of the harbour has many lines and says little else. "


def long_text(name: str, size: int) -> str:
    """Return a text of `size` characters with its name at both ends."""
    return f"{name} begins. {TIDES * (size // len(TIDES))} {name} ends." if size > 200 else f"{name} is short."


def turn_of(name: str, size: int) -> WindowTurn:
    call = ToolCall(id=f"{name}1", name="fetch", arguments='{"page": 1}')
    reply = ModelReply(items=(TextPart(text=f"{name} answer."), call))
    result = ToolResult(call_id=call.id, tool="fetch", text=long_text(f"{name} result", size))
    return WindowTurn(run=name, at=AT, input=f"{name} words.", items=(reply, result))


def parts_of(sizes: dict[RequestPart, int]) -> tuple[ContextParts, tuple[ModelTool, ...]]:
    """Return the parts of a request, each with about its size in `sizes`, or else short."""
    size = {part: sizes.get(part, 0) for part in RequestPart}
    blocks = (
        ShownBlock(label="human", value=long_text("block", size[RequestPart.BLOCKS])),
        ShownBlock(label="persona", value="Kind."),
    )
    facts = "\n".join(f"- fact {number} {TIDES}" for number in range(1 + size[RequestPart.FACTS] // len(TIDES)))
    recalled = tuple(
        RecalledMemory(id=str(number), text=long_text(f"memory {number}", 900), score=1.0)
        for number in range(1 + size[RequestPart.REFERENCE] // 900)
    )
    history = tuple(turn_of(f"h{number}", 1_500) for number in range(1 + size[RequestPart.HISTORY] // 1_600))
    given_text = long_text("given", size[RequestPart.GIVEN])
    current = WindowTurn(
        run="r",
        at=AT,
        input=long_text("current", size[RequestPart.CURRENT]),
        before=(reference_message(fenced_outside(given_text, key="k")),),
        items=turn_of("step", size[RequestPart.STEPS]).items,
    )
    parts = ContextParts(
        policy=long_text("system", size[RequestPart.SYSTEM]),
        stable=StableContext(blocks=blocks, facts=facts, mark="00112233", at=AT),
        summary=summary_text(long_text("summary", size[RequestPart.SUMMARY]), "00112233"),
        welcome=long_text("welcome", size[RequestPart.WELCOME]),
        window=history,
        before_history=summary_text(long_text("standing", size[RequestPart.STANDING]), "44556677"),
        tail=TailParts(at=AT, recalled=recalled),
        mark="8899aabb",
        current=current,
    )
    schema = '{"type":"object","properties":{"description":{"type":"string","description":"' + "A page. " * 20 + '"}}}'
    tools = tuple(
        ModelTool(name=f"tool{number}", description=long_text("tool", 500), parameters=schema)
        for number in range(1 + size[RequestPart.TOOLS] // 700)
    )
    return parts, tools


def text_of(request: AssembledRequest) -> str:
    return "\n".join(message.model_dump_json() for message in request.messages)


LARGE = 60_000


@pytest.mark.parametrize("max_bytes", [4_000, 10_000, 40_000])
@pytest.mark.parametrize("part", RequestPart)
def test_any_oversized_part_is_cut_to_fit_and_reported(part: RequestPart, max_bytes: int) -> None:
    parts, tools = parts_of({part: LARGE})
    request = assemble_request(parts, tools, max_bytes)
    assert request.size <= max_bytes
    assert request.size == bytes_of(request.messages, request.tools)
    assert part in {cut.part for cut in request.cuts}
    assert all(cut.bytes_after < cut.bytes_before for cut in request.cuts)
    if part is not RequestPart.TOOLS:
        assert "left out" in text_of(request)
    if max_bytes >= 40_000:
        # The other parts are complete.
        assert {cut.part for cut in request.cuts} == {part}
        assert part is RequestPart.CURRENT or "current is short." in text_of(request)


@pytest.mark.parametrize("part", RequestPart)
def test_a_part_always_gets_its_share(part: RequestPart) -> None:
    max_bytes = 40_000
    share = int(max_bytes * SHARES[part])
    parts, tools = parts_of(dict.fromkeys(RequestPart, LARGE))
    request = assemble_request(parts, tools, max_bytes)
    assert request.size <= max_bytes
    (cut,) = [cut for cut in request.cuts if cut.part is part]
    # A list of messages or memories is cut between its entries.
    assert cut.bytes_after >= share * 0.5


def test_the_shares_use_everything() -> None:
    assert set(SHARES) == set(RequestPart)
    assert sum(SHARES.values()) == pytest.approx(1)


@given(st.dictionaries(st.sampled_from(list(RequestPart)), st.integers(0, 30_000)), st.integers(6_000, 60_000))
def test_any_sizes_fit_and_leave_fences_closed(sizes: dict[RequestPart, int], max_bytes: int) -> None:
    parts, tools = parts_of(sizes)
    request = assemble_request(parts, tools, max_bytes)
    assert request.size <= max_bytes
    whole = "\n".join(
        part.text
        for message in request.messages
        if isinstance(message, InputMessage)
        for part in message.parts
        if isinstance(part, TextPart)
    )
    assert whole.count("<memory-") == whole.count("</memory-")
    if not request.cuts:
        assert request.messages == RequestDraft(parts).messages()


def test_a_request_that_fits_is_sent_unchanged() -> None:
    parts, tools = parts_of({})
    request = assemble_request(parts, tools, LARGE)
    assert (request.messages, request.tools, request.cuts) == (RequestDraft(parts).messages(), tools, ())


def test_the_current_message_keeps_its_beginning_and_end() -> None:
    parts, tools = parts_of({RequestPart.CURRENT: LARGE})
    text = text_of(assemble_request(parts, tools, 10_000))
    assert "current begins." in text
    assert "current ends." in text


def test_blocks_are_cut_to_their_share_and_short_ones_stay_complete() -> None:
    blocks = (
        ShownBlock(label="human", value="Called Ada."),
        ShownBlock(label="notes", value=long_text("notes", LARGE)),
    )
    parts, tools = parts_of({})
    assert parts.stable is not None
    parts = parts.model_copy(update={"stable": parts.stable.model_copy(update={"blocks": blocks})})
    text = text_of(assemble_request(parts, tools, 12_000))
    assert "Called Ada." in text
    assert "notes begins." in text
    assert "notes ends." in text


def test_the_bytes_of_a_cut_block_do_not_depend_on_later_parts() -> None:
    sizes = {RequestPart.BLOCKS: LARGE}
    first = assemble_request(*parts_of(sizes), 12_000)
    second = assemble_request(*parts_of(sizes | {RequestPart.CURRENT: 2_000, RequestPart.HISTORY: 9_000}), 12_000)
    assert first.messages[:2] == second.messages[:2]


def test_a_result_without_its_call_is_not_sent() -> None:
    turns: list[Message] = [message for number in range(20) for message in turn_of(f"t{number}", 900).items]
    for room in range(300, 6_000, 100):
        shown = cut_messages(turns, room)
        assert bytes_of(shown) <= room
        calls = {
            item.id
            for each in shown
            if isinstance(each, ModelReply)
            for item in each.items
            if isinstance(item, ToolCall)
        }
        assert {each.call_id for each in shown if isinstance(each, ToolResult)} <= calls


def test_oversized_arguments_stay_json_and_opaque_parts_are_dropped() -> None:
    call = ToolCall(id="c", name="write", arguments='{"text": "' + "tide " * 2_000 + '"}')
    reply = ModelReply(items=(OpaquePart(type="reasoning", body="x" * 9_000), call, TextPart(text="Written.")))
    (short,) = cut_messages((reply,), 2_000)
    assert isinstance(short, ModelReply)
    assert [item.kind for item in short.items] == ["tool_call", "text"]
    assert '"arguments":"{\\"left_out\\"' in short.model_dump_json()


def test_tools_lose_descriptions_first_and_client_tools_are_dropped_last() -> None:
    _, tools = parts_of({RequestPart.TOOLS: 20_000})
    assert [tool.name for tool in cut_tools(tools, 10_000)] == [tool.name for tool in tools]
    few = cut_tools(tools, 700, client_tools={"tool20"})
    assert "tool20" in {tool.name for tool in few}
    assert len(few) < len(tools)
    # A property called `description` is not a description.
    assert all('"description":{"type":"string"' in tool.parameters for tool in few)


@given(st.text(max_size=400), st.integers(0, 500))
def test_a_truncated_text_is_within_its_byte_limit(text: str, size: int) -> None:
    assert text_bytes(cut_middle(text, size)) <= max(size, 0) or text_bytes(text) <= size
    assert text_bytes(cut_fenced(f"a\n<memory-00112233>\n{text}\n</memory-00112233>", size)) <= size


@given(st.lists(st.integers(0, 500), max_size=8), st.integers(0, 2_000))
def test_room_unused_by_small_parts_goes_to_large_ones(sizes: list[int], room: int) -> None:
    shares = share_room(sizes, room)
    assert sum(shares) <= room
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(sizes) > room or shares == sizes


def test_items_end_before_the_first_that_exceeds_the_tokens() -> None:
    shown: Callable[[int | None], tuple[int, ...]] = lambda most: within_tokens((3, 4, 5, 1), most, tokens=int)  # noqa: E731
    assert shown(None) == (3, 4, 5, 1)
    assert shown(8) == (3, 4)
    assert shown(2) == ()
