"""The chat models of an agent: of its runs, of summaries, of images. Those that it opened by address it also closes."""

from elytron_core.errors import InvalidInput
from elytron_core.ports.chat import ChatModel
from elytron_models.client import ModelClient, open_model


class AgentModels:
    """The models of an agent. A text is the address of a model; without one of their own, summaries and images take the
    model of the runs."""

    def __init__(
        self,
        model: ChatModel | str | None,
        /,
        *,
        summary: ChatModel | str | None = None,
        vision: ChatModel | str | None = None,
        context_tokens: int | None = None,
    ) -> None:
        if model is None:
            raise InvalidInput(field="model", problem="is missing: give a chat model, or an address in the settings")
        self._opened: list[ModelClient] = []
        self._context_tokens = context_tokens
        self.main = self._model(model)
        self.summary = self._model(summary) if summary is not None else self.main
        self.vision = self._model(vision) if vision is not None else self.main

    async def close(self) -> None:
        """Close the models that were opened here."""
        for model in self._opened:
            await model.close()

    def _model(self, wanted: ChatModel | str) -> ChatModel:
        if not isinstance(wanted, str):
            return wanted
        opened = open_model(wanted, context_tokens=self._context_tokens)
        self._opened.append(opened)
        return opened
