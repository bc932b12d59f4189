"""Options of a response: what of them holds, for the agent and its model, and what is refused by its name."""

import json
from typing import Any, Final, get_args

from elytron_agent.context.compaction import bytes_of, tokens_of
from elytron_agent.context.request import text_message
from elytron_agent.runs.parts import ClientPart
from elytron_agent.runs.settings import AgentSettings
from elytron_agent.service.responses.response_items import GivenInput
from elytron_agent.service.responses.response_wire import AnswerFormat, FunctionChoice, ResponseForm, ResponseRequest
from elytron_core.errors import InvalidInput
from elytron_core.ports.chat import ChatRole, ModelRequest, ModelTool, ReasoningEffort, ToolChoice
from elytron_models.client import ModelClient

HIDDEN: Final = frozenset({"done", "set_preference", "spawn_subagent"})
"""Tools of agents that a thread of responses has no use for."""
_RESERVED: Final = frozenset({"done", "read_result"})
_PLAIN_OBJECT: Final = '{"type":"object"}'
_INCLUDABLE: Final = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
"""Parts of items that no answer here has: to include them adds nothing, and leaves nothing out."""
_EFFORTS: Final = get_args(ReasoningEffort)


def require_options(asked: ResponseRequest, model: ModelClient, /) -> None:
    """Raise InvalidInput for what a response cannot have, by the name of its field."""
    _require_tools(asked)
    for name, problem in _option_problems(asked):
        raise InvalidInput(field=name, problem=problem)
    part = client_part(asked.form)
    model.require(
        ModelRequest(
            messages=(text_message(ChatRole.USER, "."),),
            tools=(*part.tools, ModelTool(name="recall")),
            top_p=part.top_p,
            reasoning_effort=part.reasoning_effort,
            parallel_calls=part.parallel_calls,
        )
    )


def require_room(asked: ResponseRequest, given: GivenInput, max_tokens: int, /) -> None:
    """Raise InvalidInput for an input that alone is longer than the window, if nothing of it may be left out."""
    if asked.truncation != "disabled" and not given.has_files:
        return
    size = bytes_of((*given.before, text_message(ChatRole.USER, given.text)))
    tokens = tokens_of(size + len(asked.instructions or ""), factor=1)
    if tokens > max_tokens:
        why = "`truncation` is disabled" if asked.truncation == "disabled" else "files are not cut"
        problem = f"has about {tokens} tokens, the window {max_tokens}, and {why}"
        raise InvalidInput(field="input", problem=problem)


def effort_of(form: ResponseForm, /) -> ReasoningEffort | None:
    """Return the effort that a request asks for, None for the model's own."""
    effort = (form.reasoning or {}).get("effort")
    return next((known for known in _EFFORTS if known == effort), None)


def _option_problems(asked: ResponseRequest) -> list[tuple[str, str]]:
    """Return the fields that cannot hold here, each with the reason."""
    reasoning, stream = asked.reasoning or {}, asked.stream_options or {}
    found: list[tuple[str, str]] = []
    if reasoning.get("effort") not in (None, *_EFFORTS):
        found.append(("reasoning.effort", f"is none of {', '.join(_EFFORTS)}"))
    found += [
        (f"reasoning.{name}", "cannot be had: answers have no items of reasoning")
        for name in sorted(reasoning.keys() - {"effort"})
        if reasoning[name] is not None
    ]
    if unknown := sorted(set(asked.include or ()) - _INCLUDABLE):
        found.append(("include", f"cannot have {unknown[0]!r}: no answer has it"))
    if asked.top_logprobs:
        found.append(("top_logprobs", "is more than 0: no answer has probabilities"))
    if stream.get("include_obfuscation"):
        found.append(("stream_options", "asks for padding, which events do not have"))
    if asked.context_management:
        found.append(("context_management", "is the agent's own: PUT /v1/agent/config sets its compaction"))
    if asked.text is not None and asked.text.verbosity not in {None, "medium"}:
        found.append(("text.verbosity", "cannot be chosen: say it in `instructions`"))
    for name, penalty in (("presence", asked.presence_penalty), ("frequency", asked.frequency_penalty)):
        if penalty:
            found.append((f"{name}_penalty", "cannot be had: leave it out, or 0"))
    return found


def changed_settings(settings: AgentSettings, form: ResponseForm, /) -> AgentSettings:
    """Return the settings of one response."""
    given: dict[str, Any] = {
        "temperature": form.temperature,
        "max_tokens": form.max_output_tokens,
        "instructions": form.instructions,
    }
    changes = {name: value for name, value in given.items() if value is not None} | {"welcomes": False}
    if form.max_tool_calls is not None:
        changes["budget"] = settings.budget.model_copy(update={"calls": form.max_tool_calls})
    if form.tool_choice == "none":
        changes["uses_tools"] = False
    return settings.model_copy(update=changes)


def client_part(form: ResponseForm, /) -> ClientPart:
    """Return what a response has the model be offered, and the form that its answer is to have."""
    wanted = form.text.format if form.text is not None else AnswerFormat()
    schema = json.dumps(wanted.schema_) if wanted.schema_ is not None else None
    tools = [] if form.tool_choice == "none" else list(form.tools or ())
    choice = ToolChoice.AUTO
    if isinstance(form.tool_choice, FunctionChoice):
        choice, name = ToolChoice.REQUIRED, form.tool_choice.name
        tools = [tool for tool in tools if tool.name == name]
    elif form.tool_choice == "required":
        choice = ToolChoice.REQUIRED
    return ClientPart(
        tools=tuple(
            ModelTool(
                name=tool.name,
                description=tool.description or "",
                parameters=json.dumps(tool.parameters)
                if tool.parameters is not None
                else ModelTool(name="x").parameters,
            )
            for tool in tools
        ),
        choice=choice,
        schema_text=_PLAIN_OBJECT if wanted.type == "json_object" else schema,
        hidden=HIDDEN,
        top_p=form.top_p,
        reasoning_effort=effort_of(form),
        parallel_calls=form.parallel_tool_calls,
        keeps_all=form.truncation == "disabled",
    )


def _require_tools(asked: ResponseRequest) -> None:
    """Raise InvalidInput for tools that cannot be offered together."""
    names = [tool.name for tool in asked.tools or ()]
    if len(set(names)) < len(names):
        raise InvalidInput(field="tools", problem="are two of one name")
    if _RESERVED & set(names):
        raise InvalidInput(
            field="tools", problem=f"have a name that is the agent's own: {', '.join(sorted(_RESERVED))}"
        )
    choice = asked.tool_choice
    if isinstance(choice, FunctionChoice) and choice.name not in names:
        raise InvalidInput(field="tool_choice", problem="is none of the tools")
    if choice == "required" and not names:
        raise InvalidInput(field="tool_choice", problem="is required, and there are no tools")
