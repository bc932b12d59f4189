"""No text in a block holds a mark of any family of models."""

import pytest

from elytron_core.policy.projection.sections import escape_line, escape_links, line_of

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
def test_no_mark_of_a_family_stays_whole(family: str) -> None:
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
def test_ordinary_brackets_stay(text: str) -> None:
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
def test_no_tag_of_any_name_stays_whole(text: str) -> None:
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
def test_no_link_of_a_text_from_outside_is_live(outside: str, shown: str) -> None:
    assert escape_links(outside) == shown
    assert line_of("m", (), outside, is_outside=True).is_faithful
