"""Marks that show a model where a part begins and ends, by how they are written.

A text in a block must hold none of them whole: a host's template may turn it into the token itself. Marks between bars,
such as `<|im_start|>` and `<｜User｜>`, need no list: a bar behind the bracket is enough.
"""

from typing import Final

ANGLED: Final = (
    r"s>|sys>>|bos(?:_token)?>|eos(?:_token)?>|unk>|pad>|mask>|cls>|sep>|sop>|eop>|eo[ahs]>|eosys>|eot>|eom>|eod>"
    r"|(?:start|end|beginning)_of_\w|(?:begin|end)of(?:text|sentence)|think(?:ing)?>|answer>|system>|user>|assistant>|human>"
    r"|tool_(?:calls?|responses?|results?)>|tools>|function(?:_calls?|_results?)?[>=]|turn[|>]|role>|im_\w+>"
    r"|fim_\w|extra_id_|unused_?\d|reserved_\d|special_\d|tokens_unused_\d|seed:\w|image>|video>|audio>|0x[0-9a-f]{2}>|minimax:\w"
)
"""Marks behind an opening bracket and perhaps a slash: Llama 2, Gemma, T5, InternLM, Baichuan, Command R, Seed,
Nemotron, and the tags of tools and thoughts that Qwen, DeepSeek and Hermes use. In letters of any case."""
BRACKETED: Final = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|TOOLS|ARGS|CALL_ID|MODEL_SETTINGS"
    r"|IMG|IMG_BREAK|IMG_END|IMAGE|AUDIO|BEGIN_AUDIO|TRANSCRIBE|THINK|REF|PREFIX|MIDDLE|SUFFIX|CONTROL_\d{1,4}"
    r"|STREAMING_(?:PAD|WORD)|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|SYS|unused\d{1,4}|\|[a-z_]{1,20}\|"
)
"""Marks between square brackets, perhaps behind a slash: Mistral, GLM, EXAONE, BERT and their heirs."""
