"""No text in a block contains a role mark of any model family."""

import re
import sys
import unicodedata
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.policy.projection.sections import escape_line, escape_links, line_of
from elytron_core.text.similarity import LOOKALIKES, bare_places, bare_text

FAMILIES = {
    "llama 2": "<s> </s> [INST] [/INST] <<SYS>> <</SYS>> <unk>",
    "llama 3 and 4": "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|python_tag|>",
    "mistral": "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [TOOL_CONTENT] [ARGS] "
    "[CALL_ID] [IMG] [IMG_BREAK] [IMG_END] [THINK] [/THINK] [PREFIX] [MIDDLE] [SUFFIX] [AUDIO] [BEGIN_AUDIO] "
    "[OUTPUT_AUDIO] [NEXT_AUDIO_TEXT] [REPEAT_AUDIO_TEXT] [PRINT_TIME] [TRANSCRIBE] [STREAMING_PAD] [MODEL_SETTINGS]",
    "qwen and chatml": "<|im_start|> <|im_end|> <|endoftext|> <tool_call> </tool_call> <tools> <think>",
    "gemma": "<bos> <eos> <start_of_turn> <end_of_turn> <start_of_image> <|turn> <turn|> <unused12> [@BOS@] "
    "[multimodal] <2mass> <|channel> <channel|> <|tool> <tool|> <|tool_call> <tool_call|> <tool_response|> "
    "<image|> <audio_soft_token>",
    "deepseek": "<｜begin▁of▁sentence｜> <｜User｜> <｜Assistant｜> <｜tool▁calls▁begin｜> </think>",
    "phi and harmony": "<|system|> <|user|> <|assistant|> <|end|> <|start|> <|channel|> <|message|> <|call|>",
    "exaone": "[|system|] [|user|] [|assistant|] [|endofturn|]",
    "minimax": "]~!b[ ]~b] [e~[ ]!d~[ ]!p~[ ]<]image[>[ ]<]video[>[ ]<]minimax[>[ <minimax:tool_call> "
    "</minimax:tool_call> <mm:think> <function_call>",
    "glm": "[gMASK] [sMASK] <sop> <eop> <|observation|> [MASK] [CLS] [SEP] <arg_key> </arg_value>",
    "command r and granite": "<BOS_TOKEN> <EOS_TOKEN> <EOP_TOKEN> <MASK_TOKEN> "
    "<|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|> <|start_of_role|>",
    "internlm and baichuan": "<eoh> <eoa> <eosys> <reserved_106> <TOKENS_UNUSED_1> <|User|>",
    "nemotron and t5": "<extra_id_0> <SPECIAL_10> <TOOLCALL> </AVAILABLE_TOOLS> <pad> <0x0A>",
    "seed and kimi": "<seed:bos> <seed:think> <[begin▁of▁sentence]> <[fim-prefix]> <[PAD▁TOKEN]> "
    "<|im_system|> <|im_middle|> <|tool_calls_section_begin|>",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_role_mark_is_broken_up(family: str) -> None:
    marks = FAMILIES[family].split()
    for mark in marks:
        shown = escape_line(f"before {mark} after")
        assert mark not in shown, mark
        assert shown.startswith("before "), "and the words beside it stay"
        assert shown.endswith(" after")
        assert line_of("m", (), f"before {mark} after").is_faithful
    together = escape_line(FAMILIES[family].replace(" ", ""))
    assert not [mark for mark in marks if mark in together]


@pytest.mark.parametrize(
    "text",
    [
        "2 < 3 and a[0]",
        "the [IMPORTANT] part",
        "if a < b and b<=c, x <- y, 1<<3",
        "I <3 boats",
        "[img](x.png)",
        "a[0] ~b] and x[i]>[y]",
    ],
)
def test_ordinary_brackets_are_preserved(text: str) -> None:
    assert escape_line(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("<context>", "</context>", "<core_memory>", "</ assistant >", "< assistant >", "＜context＞", "﹤/context﹥"),
        *("<\u200bcontext>", "<\u200dcontext>", "<con\u200dtext>", "<\ufe0fcontext>", "<\u2060/\u00adcontext>"),
        *(
            "<c",
            "x<context>",
            "<ＣＯＮＴＥＸＴ>",
            "<контекст>",
            "<!-- obey -->",
            "<?xml version='1'?>",
            "<_name a='b'>",
        ),
        *("List<String>", "<context\nid=1>", "< context id='1' >"),
    ],
)
def test_every_tag_is_broken_up(text: str) -> None:
    shown = escape_line(f"before {text} after")
    assert not set("<\uff1c\ufe64") & set(shown)
    assert (shown[:7], shown[-6:]) == ("before ", " after")
    assert line_of("m", (), f"before {text} after").is_faithful


@pytest.mark.parametrize(
    ("outside", "shown"),
    [
        ("<a href='//evil.example'>here</a>", "‹a href='//evil.example'>here‹/a>"),
        ("[here](javascript:x)", "[here] (javascript:x)"),
        ("<https://evil.example/?q=1>", "‹https[:]//evil.example/?q=1>"),
        ("mailto:eve@evil.example www.evil.example", "mailto[:]eve@evil.example www[.]evil.example"),
    ],
)
def test_no_link_in_outside_text_is_clickable(outside: str, shown: str) -> None:
    assert escape_links(outside) == shown
    assert line_of("m", (), outside, is_outside=True).is_faithful


MARKS = [mark for marks in FAMILIES.values() for mark in bare_text(marks).split()]
TAGS = [
    "<memory-0123456789abcdef>",
    "</memory-0123456789abcdef>",
    "</elytron-memory>",
    "<1abc>",
    "<:x>",
    "<@x>",
    "< / s >",
]
UNSEEN = st.sampled_from(
    "\u034f\u17b4\u0301\u200b\u200c\u200d\u2060\u00ad\u115f\u3164\ufe0f\u180b\u20dd\u0903\U000e0101\ue000\x07\u0378"
)
LOOKS = {sign: st.sampled_from(sign + chars) for sign, chars in LOOKALIKES.items()}
FORMS = re.compile(
    r"<[\s/\\]*(?:\||memory-|[^\s<>‹]{0,8}[^\W\d_][^\s<>‹]*[\s/]*>)|\[\s*/?\s*(?:INST|gMASK|SYSTEM_PROMPT|\|[a-z]+\|)\s*\]",
    re.IGNORECASE,
)


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """Return a mark with lookalike and invisible characters, and spaces within its brackets."""
    mark = draw(st.sampled_from([*MARKS, *TAGS]))
    text = ""
    for char in mark:
        text += draw(LOOKS.get(char, st.just(char))) + draw(st.text(UNSEEN, max_size=2))
        if char in "[</":
            text += draw(st.sampled_from(["", "", " "]))
    return text


@given(st.lists(st.one_of(disguised(), st.text(max_size=4), st.sampled_from(["a", " ", "<", "["])), max_size=4))
def test_invisible_and_lookalike_characters_hide_no_mark(parts: list[str]) -> None:
    shown = escape_line("".join(parts))
    bare = bare_text(shown)
    assert FORMS.search(bare) is None
    assert not [mark for mark in (*MARKS, *TAGS) if mark in bare]
    assert escape_line(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("<\u034fmemory-00000000>", "</\u17b4context>", "<\u0301context>", "<\u2215context>", "<\u2044context>"),
        *("<\uff0fcontext>", "<\u29f8context>", "<1abc>", "<:x>", "<\u2758im_end\u2758>", "<2\u0301mass>"),
    ],
)
def test_an_opening_followed_by_an_invisible_character_is_escaped(text: str) -> None:
    assert escape_line(f"before {text} after") == f"before \u2039{text[1:]} after"


@pytest.mark.parametrize(
    "mark", ["[ INST ]", "[/ INST]", "[\u034fINST]", "[IN\u0301ST]", "\uff3bINST\uff3d", "[ |system| ]"]
)
def test_a_bracketed_mark_with_additions_is_escaped(mark: str) -> None:
    assert escape_line(f"before {mark} after") == f"before ({mark[1:]} after"


RUN = 256
"""Characters scanned at once: a run without a bracket contains no mark."""


def test_every_character_that_is_read_as_a_bracket_is_escaped() -> None:
    every = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) != "Cs"]
    runs = [every[start : start + RUN] for start in range(0, len(every), RUN)]
    for char in chain.from_iterable(run for run in runs if not {"<", "["}.isdisjoint(bare_text("".join(run)))):
        bare = bare_text(char)
        if "<" in bare:
            assert escape_line(f"a {char}b> c") == "a \u2039b> c"
        if "[" in bare:
            assert escape_line(f"a {char}INST] c") == "a (INST] c"


@pytest.mark.parametrize(
    "text", ["Zoë ate ½ a crème brûlée (〔sic〕) ｜ 5 ⁄ 6", "👍🏽 می‌خواهم [ok]", "《书名》〈篇名〉 ≮ 3"]
)
def test_other_characters_are_preserved(text: str) -> None:
    assert escape_line(text) == text
    assert len(bare_places(text)) == len(bare_text(text))
