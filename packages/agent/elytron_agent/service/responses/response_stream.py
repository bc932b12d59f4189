"""The stream of a response: what happens in its turn as events of Open Responses."""

import json
from typing import Any, Final

from elytron_agent.runs.events import AgentEvent, AnswerDropped, RunEnded, StepTaken, TextSaid
from elytron_agent.runs.journal import RunEnd, RunInput, RunRecord
from elytron_agent.service.responses.response_items import call_items, message_item, output_items
from elytron_agent.service.responses.response_shelf import ResponseDocument, response_body
from elytron_agent.service.responses.response_wire import CallItem, OutputItem, ResponseBody, ResponseProblem, Status
from elytron_agent.service.turn_events import TurnFeed

LAST_KINDS: Final[dict[Status, str]] = {"completed": "completed", "incomplete": "incomplete"}
_TOOL: Final = "arguments"
_OVER: Final = b"data: [DONE]\n\n"
"""The end of every stream."""


class ResponseStream:
    """Puts the events of one response into a feed. `body` is there at the end."""

    def __init__(self, document: ResponseDocument, feed: TurnFeed[bytes], /) -> None:
        self.document = document
        self.body: ResponseBody | None = None
        self._feed = feed
        self._number = 0
        self._step, self._attempt = 1, 0
        self._said: str | None = None
        """Text of the message that is under way, None between messages."""
        self._items: list[OutputItem] = []
        self._ended: RunEnded | None = None

    def begin(self, record: RunRecord | None = None) -> None:
        """Say that the response is under way, with what an earlier process said of it."""
        shown = response_body(self.document, None, status="in_progress")
        if self._number == 0:
            self._put("response.created", response=shown.model_dump(mode="json", by_alias=True))
            self._put("response.in_progress", response=shown.model_dump(mode="json", by_alias=True))
        if record is not None:
            self._add_missing(record)
            self._step = len(record.replies) + 1

    def take(self, event: AgentEvent, /) -> None:
        """Put what one event of the run comes to."""
        match event:
            case TextSaid():
                self._begin_message()
                self._said = (self._said or "") + event.text
                self._put("response.output_text.delta", delta=event.text, logprobs=[], **self._content_place())
            case AnswerDropped():
                self._end_message(self._said or "", status="incomplete")
                self._attempt += 1
            case StepTaken():
                if event.text:
                    self._begin_message()
                    self._end_message(event.text)
                elif self._said is not None:
                    self._end_message(self._said)
                self._step, self._attempt = event.step + 1, 0
            case RunEnded():
                self._ended = event
                for item in call_items(self.document.id, event.usage.steps, event.calls):
                    self._add_call(item)
            case _:
                pass

    def finish(self, record: RunRecord | None) -> ResponseBody:
        """Put the last event, and return the response. `record` is the stored run, None for one that is not stored."""
        if record is not None:
            self._add_missing(record)
        elif self._ended is not None:
            record = _unstored_record(self.document, self._ended)
        body = response_body(self.document, record)
        if not self.document.form.is_stored:
            body = body.model_copy(update={"output": tuple(self._items)})
        return self._last(body)

    def fail(self, code: str, message: str) -> ResponseBody:
        """Put the end of a response that failed, and return it."""
        self.document = self.document.model_copy(update={"problem": ResponseProblem(code=code, message=message)})
        if self._said is not None:
            self._end_message(self._said, status="incomplete")
        body = response_body(self.document, None)
        return self._last(body.model_copy(update={"output": tuple(self._items)}))

    def _last(self, body: ResponseBody) -> ResponseBody:
        kind = LAST_KINDS.get(body.status, "failed")
        # A message that broke off stays in the stream's own answer: its client has seen it.
        dropped = tuple(item for item in self._items if item.status == "incomplete")
        shown = body.model_copy(update={"output": tuple(self._items)}) if dropped else body
        self.body = body
        self._put(f"response.{kind}", response=shown.model_dump(mode="json", by_alias=True))
        self._feed.put(_OVER)
        return body

    def _add_missing(self, record: RunRecord) -> None:
        """Add what is stored, and was not sent from here."""
        known = {item.id for item in self._items}
        for item in output_items(self.document.id, record):
            if item.id in known:
                continue
            if isinstance(item, CallItem):
                self._add_call(item)
            else:
                self._step, self._attempt = int(item.id.rpartition("_")[2]), 0
                self._begin_message()
                self._end_message(item.content[0].text)

    def _begin_message(self) -> None:
        if self._said is not None:
            return
        self._said = ""
        item = message_item(self.document.id, self._step, "", attempt=self._attempt, status="in_progress")
        self._put(
            "response.output_item.added",
            output_index=len(self._items),
            item=item.model_copy(update={"content": ()}).model_dump(mode="json"),
        )
        self._put("response.content_part.added", part=_text_part(""), **self._content_place())

    def _end_message(self, text: str, *, status: str = "completed") -> None:
        if self._said is None:
            return
        place = self._content_place()
        self._put("response.output_text.done", text=text, logprobs=[], **place)
        self._put("response.content_part.done", part=_text_part(text), **place)
        item = message_item(self.document.id, self._step, text, attempt=self._attempt, status=status)
        self._put("response.output_item.done", output_index=len(self._items), item=item.model_dump(mode="json"))
        self._items.append(item)
        self._said = None

    def _add_call(self, item: CallItem) -> None:
        at = len(self._items)
        begun = item.model_copy(update={_TOOL: "", "status": "in_progress"})
        place: dict[str, Any] = {"item_id": item.id, "output_index": at}
        self._put("response.output_item.added", output_index=at, item=begun.model_dump(mode="json"))
        self._put("response.function_call_arguments.delta", delta=item.arguments, **place)
        self._put("response.function_call_arguments.done", arguments=item.arguments, name=item.name, **place)
        self._put("response.output_item.done", output_index=at, item=item.model_dump(mode="json"))
        self._items.append(item)

    def _content_place(self) -> dict[str, Any]:
        item = message_item(self.document.id, self._step, "", attempt=self._attempt)
        return {"item_id": item.id, "output_index": len(self._items), "content_index": 0}

    def _put(self, kind: str, **fields: Any) -> None:
        told = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        data = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        self._feed.put(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))


def _unstored_record(document: ResponseDocument, ended: RunEnded) -> RunRecord:
    """Return the end of a run of which nothing is stored, in the form of a stored one."""
    asked = RunInput(run=document.id, at=document.created_at, text="", thread=document.thread, is_stored=False)
    end = RunEnd(reason=ended.reason, problem=ended.problem, usage=ended.usage, at=document.created_at)
    return RunRecord(input=asked, end=end)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
