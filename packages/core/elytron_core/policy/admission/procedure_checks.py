"""Checks of a text that is to count as a procedure.

Three flaws, looked for in this order:

- *empty*: nothing to see in it.
- *raw payload or log*: all of it is one JSON value, JSON lines or a markup document, or at least half of its lines look
  like log lines, stack frames or pieces of JSON. A procedure that quotes an error keeps well below half.
- *weak*: nothing step-like and nothing imperative. Two lines are steps; on a single line one of these is enough: a list
  mark or "step 1", a word that orders or obliges ("then", "must", "never", 先, 必须), a piece of code or a command
  option, or a sentence that opens with one of `ORDERS`. The rule is lenient on purpose: it turns away a bare remark,
  and leaves the worth of a real procedure to its use.
"""

import json
import re
from typing import Final

from elytron_core.text import similarity

EMPTY: Final = "the procedure is empty"
RAW: Final = "the procedure is a raw payload or log: write what to do, not what was printed"
WEAK: Final = "the procedure has no step: write what to do, one step per line"

RAW_SHARE: Final = 0.5
"""From this share of raw lines on, a text is a log."""

_ORDER_WORDS = """
add adjust aim align allow answer apply archive arrange ask assign attach avoid bake boil book bring build call
cancel change charge check choose clean clear click close collect combine commit compare configure confirm
connect consider convert copy count create cut delete deploy descale describe disable do document download drain
draw drop dry edit empty enable ensure enter escalate escape examine export fetch file fill find fix flush fold
follow format gather generate get give go group handle heat hold identify ignore import include increase inform
inspect install invoke isolate keep launch lead leave let limit list listen load lock log look lower make mark
measure merge migrate mix monitor mount move mute name note notify offer open order pack parse pass paste pause
phone pick place plan plug pour prefer prepare present press prevent print pull push put raise read rebase reboot
record reduce refer refresh reject release reload remind remove rename repeat replace reply report request reset
resolve restart restore retry return reuse review rinse roll rotate run save say scale scan schedule scroll
search select send set share show shut sign skip soak sort split start state stay stir stop store submit suggest
switch sync tag take talk tell test thank treat try turn type unlock unplug update upgrade upload use validate
verify visit wait walk warm warn wash watch wipe work wrap write
"""
ORDERS: Final = frozenset(_ORDER_WORDS.split())
"""Verbs that open an order."""

_LOG_LINE = re.compile(
    r"\s*+(?:"
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d"  # 2025-03-02T14:05
    r"|\[?\d\d:\d\d:\d\d\b"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "  # syslog
    r"|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    r"|Traceback \(most recent call last\)"
    r"|File \"[^\"\n]*\", line \d"
    r"|at [\w.$<>/]+\("
    r"|Caused by: "
    r"|[\w.]*(?:Error|Exception)\b(?::|$)"
    r"|\{\".*\}\s*$"  # a JSON line
    r"|\"[^\"\n]*\"\s?:"  # a member of a JSON object
    r"|[\[\]{}(),;\s]++$"
    r")"
)
_MARKUP = re.compile(r"\s*+<(?:\?xml|!doctype|html)\b", re.IGNORECASE)
_FENCE = re.compile(r"\s*+```\w*+\n(.*?)\n?```\s*", re.DOTALL)
_STEP = re.compile(
    r"\s*+(?:[-*+•·]\s|[(\[]?\d{1,3}[.)\]、:：]|step\s\d|第[一二三四五六七八九十\d]{1,3}步)", re.IGNORECASE
)
_OBLIGES = re.compile(
    r"\b(?:then|must|should|shall|always|never|don't|please|first|next|finally|before|after|until|instead|"
    r"whenever|if|when|to)\b"
    r"|[先再请請把将需应應]|然后|然後|接着|最后|最後|必须|必須|不要|まず|次に|ください",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"`[^`\n]+`|^\s*\$ |\s--?[a-z]")
_OPENING = re.compile(r"(?:^|[.!?;:,]\s)\s*+([A-Za-z']+)")


def flaw(text: str, /) -> str | None:
    """Return why `text` is not a procedure to store, or None if it is one."""
    if similarity.is_blank(text):
        return EMPTY
    if is_raw(text):
        return RAW
    lines = [line for line in text.splitlines() if line.strip()]
    return None if len(lines) > 1 or _instructs(text) else WEAK


def is_raw(text: str, /) -> bool:
    """Return whether `text` is a payload or a log: machine output, not a person's words about it."""
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and (_is_payload(text) or sum(map(_is_raw_line, lines)) >= RAW_SHARE * len(lines))


def _is_payload(text: str) -> bool:
    fenced = _FENCE.fullmatch(text)
    body = (fenced[1] if fenced else text).strip()
    if _MARKUP.match(body):
        return True
    if not body.startswith(("{", "[")):
        return False
    try:
        json.loads(body)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _is_raw_line(line: str) -> bool:
    return _LOG_LINE.match(line) is not None


def _instructs(text: str) -> bool:
    if _STEP.match(text) or _OBLIGES.search(text) or _COMMAND.search(text):
        return True
    return any(opening[1].lower() in ORDERS for opening in _OPENING.finditer(text))
