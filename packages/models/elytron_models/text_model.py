"""A model that writes text to a prompt, over any chat model."""

from collections.abc import Sequence

from elytron_core import limits
from elytron_core.errors import ModelRefused
from elytron_core.ports import chat
from elytron_core.ports.models import Completion, Said, Speaker
from elytron_models.answer import ask

_ROLES = {Speaker.SYSTEM: chat.Role.SYSTEM, Speaker.USER: chat.Role.USER}


class TextModel:
    """Writes text through `model`, which its caller closes.

    `prompt_price` and `completion_price` are what a million tokens cost, for the reports.
    """

    def __init__(self, model: chat.ChatModel, /, *, prompt_price: float = 0.0, completion_price: float = 0.0) -> None:
        self._model = model
        self._prices = (prompt_price, completion_price)

    def __repr__(self) -> str:
        return f"TextModel({self.name!r})"

    @property
    def name(self) -> str:
        return self._model.info.name

    async def complete(self, prompt: Sequence[Said], /, *, schema: str | None = None, max_tokens: int) -> Completion:
        """Return what the model writes. Raises ModelUnavailable, ModelRefused."""
        messages = tuple(_message(said) for said in prompt)
        request = chat.ModelRequest(messages=messages, answer_schema=schema, max_tokens=max_tokens)
        answer = await ask(self._model, request)
        text, usage = answer.text, answer.usage
        if not text or answer.reason is chat.FinishReason.REFUSED:
            raise ModelRefused(f"the model {self.name!r} gave no text")
        return Completion(
            text=text[: limits.MODEL_ANSWER_CHARS],
            model=self.name,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cost=round(usage.input_tokens * self._prices[0] + usage.output_tokens * self._prices[1]),
            is_cut=answer.reason is not chat.FinishReason.STOP or len(text) > limits.MODEL_ANSWER_CHARS,
        )


def _message(said: Said) -> chat.Message:
    part = chat.TextPart(text=said.text)
    if said.speaker is Speaker.ASSISTANT:
        return chat.Reply(items=(part,))
    return chat.InputMessage(role=_ROLES[said.speaker], parts=(part,))
