"""Claude keeps notes in files that are stored in Ada's memory. A scripted server stands for the model."""

from anthropic import Anthropic
from scripted_model import scripted_model

import elytron
from elytron_integrations.anthropic_memory import ElytronMemoryTool

COMMAND = {"command": "create", "path": "/memories/ada.md", "file_text": "Ada drinks green tea."}
USE = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": COMMAND}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
USAGE = {"input_tokens": 1, "output_tokens": 1}
ANSWERS = (
    {**MESSAGE, "stop_reason": "tool_use", "usage": USAGE, "content": [USE]},
    {**MESSAGE, "stop_reason": "end_turn", "usage": USAGE, "content": [{"type": "text", "text": "Noted."}]},
)

with scripted_model(*ANSWERS) as (url, requests), elytron.open("memory:", space="ada") as memory:
    tool, client = ElytronMemoryTool(memory), Anthropic(base_url=url, api_key="none")
    runner = client.beta.messages.tool_runner(
        model="m", max_tokens=99, tools=[tool], messages=[{"role": "user", "content": "I drink green tea."}]
    )
    print(*(part.text for part in runner.until_done().content if part.type == "text"))
    print(tool.call({"command": "view", "path": "/memories/ada.md"}))
