"""Summaries of inputs: what a client sends in the place of a long history."""

from typing import Final

from elytron_agent import limits as agent_limits
from elytron_agent.context import compaction
from elytron_agent.context.request import WindowTurn, clip_words
from elytron_agent.service.companion import UserAgents, config_of
from elytron_agent.service.responses.response_desk import ResponseDesk
from elytron_agent.service.responses.response_items import SummarySeal, word_of, words_of_messages
from elytron_agent.service.responses.response_shelf import ResponseShelf, require_model
from elytron_agent.service.responses.response_wire import CompactedBody, CompactionItem, CompactRequest, ResponseRequest
from elytron_core.errors import InvalidInput, ModelError, NotFound
from elytron_models.answer import ask_for

_HEAD: Final = "Summary of the conversation so far:\n"


async def sum_up(desk: ResponseDesk, user: UserAgents, asked: CompactRequest, /) -> CompactedBody:
    """Return a sealed summary of an input behind what a response continues: a model's, else the turns' own sentences.

    Raises NotFound, InvalidInput for nothing to sum up, and for an unknown model.
    """
    known, shelf, now = await user.answering(), ResponseShelf(user), user.memory.context.clock.now()
    config = config_of(known, user.settings)
    model = require_model(asked.model, config.models, config.model)
    turns: list[WindowTurn] = []
    if asked.previous_response_id is not None:
        document = (await shelf.read(asked.previous_response_id)).document
        runs = await shelf.runs(document.thread)
        if document.id not in runs:
            raise NotFound(what="response", name=document.id)
        before = await shelf.turns(document.thread, runs[: runs.index(document.id) + 1])
        turns += [each.record.turn for each in before if each.record is not None]
    items = ResponseRequest(input=asked.input).items if asked.input is not None else ()
    calls = {call.call_id or "": call.name or "" for call in items if call.type == "function_call"}
    given = await desk.read_items(user, items, calls)
    history = words_of_messages(given.before)
    if history or given.text:
        words = "\n".join(part for part in (history, given.text) if part)
        turns.append(WindowTurn(run="", at=now, input=clip_words(words, agent_limits.SUMMARY_INPUT_CHARS)))
    if not turns:
        raise InvalidInput(field="input", problem="is empty: there is nothing to sum up")
    text = await _written_summary(desk, user, model, turns)
    seal = SummarySeal(user)
    await seal.prepare()
    name = shelf.new_response()
    item = CompactionItem(id=f"cmp_{word_of(name)}_0", encrypted_content=seal.seal(_HEAD + text))
    return CompactedBody(id=name, created_at=now // 1000, output=(item,))


async def _written_summary(desk: ResponseDesk, user: UserAgents, model: str, turns: list[WindowTurn]) -> str:
    address = user.settings.summary_model or user.settings.model_named(model)
    request = compaction.summary_request(turns, "")
    try:
        answer = await ask_for(desk.model(address), request, compaction.WindowSummaryDraft)
    except ModelError:
        return compaction.extract_summary(turns, "")
    draft = answer.value
    if compaction.problem_of(draft, turns, "") is not None:
        return compaction.extract_summary(turns, "")
    return draft.text
