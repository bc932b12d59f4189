"""Marks that show a model where a part begins and ends, by how they are written.

A text in a block must contain none of them whole: a host's template may turn it into the token itself. Marks between
bars, such as `<|im_start|>` and `<｜User｜>`, need no list: a bar behind the bracket is enough.
"""

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
