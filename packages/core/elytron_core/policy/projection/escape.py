"""Escaping of recalled text: one line that can neither leave its fence, nor play another role, nor fetch anything."""

import re
import unicodedata
from enum import StrEnum
from typing import Final

ANGLED: Final = (
    r"s>|sys>>|(?:bos|eos|eop|mask)(?:_token)?>|unk>|pad>|cls>|sep>|sop>|eo[ahs]>|eosys>|eot>|eom>|eod>|2mass>"
    r"|(?:start|end|beginning)_of_\w|(?:begin|end)of(?:text|sentence)|think(?:ing)?>|answer>|system>|user>|assistant>|human>"
    r"|tool_?(?:calls?|responses?|results?)>|(?:available_)?tools>|arg_(?:key|value)>|function(?:_calls?|_results?)?[>=]"
    r"|turn>|\w{1,24}[|\uff5c]>|role>|im_\w+>|fim_\w|extra_id_|unused_?\d|reserved_\d|special_\d|tokens_unused_\d"
    r"|seed:\w|\[(?:begin|end|fim|pad|sep)\W|image>|video>|audio>|(?:image|audio)_soft_token>|0x[0-9a-f]{2}>|minimax:\w|mm:\w"
)
"""Marks behind an opening bracket and perhaps a slash: Llama 2, Gemma, T5, InternLM, Baichuan, Command R,
GLM, Seed, Nemotron, MiniMax, and the tags of tools and thoughts that Qwen, DeepSeek and Hermes use. In letters of any
case."""
BRACKETED: Final = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|TOOLS|ARGS|CALL_ID|MODEL_SETTINGS"
    r"|IMG|IMG_BREAK|IMG_END|IMAGE|(?:BEGIN_|OUTPUT_)?AUDIO|(?:NEXT|REPEAT)_AUDIO_TEXT|PRINT_(?:TIME|LANGUAGE)|TRANSCRIBE"
    r"|THINK|REF|PREFIX|MIDDLE|SUFFIX|CONTROL_\d{1,4}|STREAMING_(?:PAD|WORD)|@BOS@|multimodal"
    r"|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|SYS|unused\d{1,4}|\|[a-z_]{1,20}\|"
)
"""Marks between square brackets, perhaps behind a slash: Mistral, Gemma, GLM, EXAONE, BERT and their heirs."""
TURNED: Final = r"\[(?=e~\[)|\](?=~b\])|(?<=\]~!b)\[|(?<=\]![dp]~)\[|(?<=[a-z])\[(?=>\[)"
"""One bracket of each mark that MiniMax writes with brackets the wrong way round: `[e~[`, `]~b]`, `]~!b[`, `]!d~[`,
`]!p~[`, `]<]image[>[` and others of this last form."""


ELLIPSIS: Final = "…"
JOINERS: Final = "\u200c\u200d"  # kept: emoji and Persian need them


class FenceTag(StrEnum):
    """Tags that surfaces put around recalled text, beside the fence `<memory-...>` itself.

    A surface takes its tag from here, so that no text inside can close it.
    """

    PROXY = "elytron-memory"
    BLOCKS = "memory_blocks"
    BLOCK = "block"


def _with_joiners(word: str) -> str:
    return "".join(f"{re.escape(char)}[{JOINERS}]*+" for char in word)


_TAGS = "|".join(map(_with_joiners, FenceTag))
_FETCHING = "(?:img|image|picture|svg|iframe|video|audio|source|embed|object|link|script|style|input|body)"
_FENCE = re.compile(
    rf"[<\uff1c\ufe64](?=[\s{JOINERS}]*+[/\uff0f]?[\s{JOINERS}]*+"
    rf"(?:memory[{JOINERS}]*+-|(?<=[/\uff0f\s])memory[\s{JOINERS}]*+>|(?:{_TAGS})(?![\w-])"
    rf"|[|\uff5c]|[<\uff1c]?[/\uff0f]?sys>>|{ANGLED}|{_FETCHING}[\s/>]))",
    re.IGNORECASE,
)
"""Openings of a fence of ours, of a mark that a tokenizer may read as its own, and of a tag that fetches something."""
_BRACKETS = re.compile(rf"\[(?=/?(?:{BRACKETED})\])|{TURNED}")
_LINK = re.compile(r"(?<=[A-Za-z0-9]):(?=//)|(?<=\bmailto):|(?<=\bwww)\.|\](?=\()|<(?=/?a[\s/>])", re.IGNORECASE)
"""The sign by which an address, the target of a Markdown link, or a link of HTML begins."""
_UNLINKED = {"]": "] ", "<": "\u2039"}
_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSEEN_RUN = re.compile(rf"[{_SELECTORS}]{{2,}}|[{JOINERS}]{{2,}}")
"""Characters that show nothing and can spell anything; a single one after a letter may have a meaning."""
_SUSPECT = re.compile(rf"[<\uff1c\ufe64{JOINERS}{_SELECTORS}]")
"""A text of other letters than ASCII's without these needs no closer look; most have none."""
_BARE_OUT = re.compile(f"[{JOINERS}{_SELECTORS}]")
_BARE = str.maketrans({"[": "(", "<": "\u2039", "\uff1c": "\u2039", "\ufe64": "\u2039"})
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})


def escape_line(text: str, /) -> str:
    """Return `text` as one line that cannot be taken for a fence: no breaks, no controls, no opening of a fence tag.

    Also removed are tokens that mark the beginning of another part for a model, runs of invisible characters, and
    images: a program that shows a model's answer would fetch one from any address that the text gives.
    """
    text = " ".join(text.split())
    if not text.isprintable():
        kept = (char for char in text if char in JOINERS or unicodedata.category(char) not in _UNSEEN)
        text = " ".join("".join(kept).split())
    if text.isascii():
        text = _FENCE.sub("\u2039", text) if "<" in text else text
    elif _SUSPECT.search(text) is not None:
        text = _UNSEEN_RUN.sub(_first_character, _FENCE.sub("\u2039", text))
    if "[" in text or "]~" in text:
        text = _BRACKETS.sub("(", text)
    return text.replace("![", "! [") if "](" in text else text


def escape_links(text: str, /) -> str:
    """Return `text` escaped, and no address in it a link: it can be read, and what shows it makes nothing to follow.

    A page could otherwise have an answer that repeats it carry something out at a click, or by a preview of the link.
    """
    return _LINK.sub(lambda found: _UNLINKED.get(found[0], f"[{found[0]}]"), escape_line(text))


def escape_shown(text: str, *, is_outside: bool) -> str:
    """Return `text` escaped, and without links if it came from outside."""
    return escape_links(text) if is_outside else escape_line(text)


def _first_character(run: re.Match[str]) -> str:
    return run[0][0]


def unescape_line(text: str) -> str:
    """Return an escaped text without what escaping makes of the text beside."""
    plain = _BARE_OUT.sub("", text.translate(_BARE)).replace("! (", "!(")
    return plain.replace("(:]", ":").replace("(.]", ".").replace("] (", "](")


def clip_text(text: str, size: int) -> str:
    """Return the first `size` characters, the last of them an ellipsis."""
    return text[: size - len(ELLIPSIS)] + ELLIPSIS
