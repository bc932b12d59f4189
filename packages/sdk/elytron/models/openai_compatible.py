"""A language model behind any server that speaks OpenAI's chat completions: the service, vLLM, Ollama, others."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from elytron.models.openai_service import OFFICIAL, OpenAIService
from elytron_core import limits, strict_json
from elytron_core.errors import ModelRefused
from elytron_core.ports.models import Completion, Said, Speaker


class Structuring(StrEnum):
    """How a server is told the shape of an answer."""

    JSON_SCHEMA = "json_schema"
    """By the schema itself, which the server holds the model to."""
    JSON_OBJECT = "json_object"
    """By asking for an object, and the schema in the prompt."""
    PROMPT = "prompt"
    """By the schema in the prompt alone, for servers that know neither."""


class OpenAIModel:
    """Writes text through chat completions. Needs the extra `llm`.

    Without `base_url` it is OpenAI's own service. `api_key` is only sent to the server and stands in no message and no
    representation; nothing is read from the environment. A call is tried up to `attempts` times, each bounded by
    `timeout_s`. `prompt_price` and `completion_price` are what a million tokens cost, for the reports. One model serves
    one event loop at a time; `close` lets go of its connections.
    """

    def __init__(
        self,
        model: str,
        /,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = limits.MODEL_TIMEOUT_S,
        attempts: int = limits.MODEL_ATTEMPTS,
        structuring: Structuring = Structuring.JSON_SCHEMA,
        temperature: float | None = None,
        prompt_price: float = 0.0,
        completion_price: float = 0.0,
    ) -> None:
        self._model = model
        self._structuring = structuring
        self._temperature = temperature
        self._prices = (prompt_price, completion_price)
        self._service = OpenAIService(
            f"the model {model!r}", base_url=base_url, api_key=api_key, timeout_s=timeout_s, attempts=attempts
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r})"

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, prompt: Sequence[Said], /, *, schema: str | None = None, max_tokens: int) -> Completion:
        """Return what the model writes. Raises ModelUnavailable, ModelRefused, MissingExtra."""
        completions: Any = self._service.client().chat.completions
        check = "check the model's name, the key, and `structuring`"
        with self._service.asking(check=check, wanted="chat completion"):
            answer = await completions.create(**self._request(prompt, schema, max_tokens))
        return self._completion(answer)

    async def close(self) -> None:
        """Let go of the connections; the next call opens them again."""
        await self._service.close()

    def _request(self, prompt: Sequence[Said], schema: str | None, max_tokens: int) -> dict[str, Any]:
        messages = [{"role": said.speaker.value, "content": said.text} for said in prompt]
        request: dict[str, Any] = {"model": self._model}
        # The service's newer models refuse the older name, most other servers know no other.
        own = self._service.base_url == OFFICIAL
        request["max_completion_tokens" if own else "max_tokens"] = max_tokens
        if self._temperature is not None:
            request["temperature"] = self._temperature
        if schema is not None:
            match self._structuring:
                case Structuring.JSON_SCHEMA:
                    shape = {"name": "answer", "strict": True, "schema": strict_json.parse(schema.encode())}
                    request["response_format"] = {"type": "json_schema", "json_schema": shape}
                case Structuring.JSON_OBJECT | Structuring.PROMPT:
                    if self._structuring is Structuring.JSON_OBJECT:
                        request["response_format"] = {"type": "json_object"}
                    told = f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{schema}"
                    messages = [{"role": Speaker.SYSTEM.value, "content": told}, *messages]
        return {**request, "messages": messages}

    def _completion(self, answer: object) -> Completion:
        # Servers differ in what they fill in, and the client's types are promises that it does not check.
        choices: Any = getattr(answer, "choices", None)
        choice: Any = choices[0] if choices else None
        text = getattr(getattr(choice, "message", None), "content", None)
        if not isinstance(text, str) or not text:
            raise ModelRefused(f"the model {self._model!r} gave no text")
        usage = getattr(answer, "usage", None)
        prompt_tokens = _count(getattr(usage, "prompt_tokens", 0))
        completion_tokens = _count(getattr(usage, "completion_tokens", 0))
        return Completion(
            text=text[: limits.MODEL_ANSWER_CHARS],
            model=self._model,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost=round(prompt_tokens * self._prices[0] + completion_tokens * self._prices[1]),
            is_cut=getattr(choice, "finish_reason", None) == "length" or len(text) > limits.MODEL_ANSWER_CHARS,
        )


def _count(tokens: object) -> int:
    return tokens if isinstance(tokens, int) and tokens > 0 else 0
