"""Reading lasting facts from what a user says about himself, by rules alone: few, and each of them said outright.

Only sentences of the user's own voice are read. Left out are questions, conditions, guesses, wishes, hearsay, quotes,
code, past habits, jokes of roles ("pretend that I am ..."), and whatever stands in a fence or a mark of this memory.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.planes.long_term import FactOperation, Kind
from elytron_core.policy.extraction.chinese_facts import CHINESE
from elytron_core.policy.extraction.english_facts import ENGLISH, INTRODUCTION
from elytron_core.policy.extraction.rule import Rule
from elytron_core.text import similarity
from elytron_core.text.lazy_regex import Pattern

READ_CHARS: Final = 20_000
"""Longer messages are pasted rather than said, and are not read."""
SENTENCE_CHARS: Final = 240
FACTS_PER_MESSAGE: Final = 8
SOMEBODY: Final = "The user"

_CODE: Final = Pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_FENCE: Final = Pattern(r"<(?P<tag>[\w:-]{1,60})[^>\n]{0,200}>.*?(?:</(?P=tag)>|\Z)", re.DOTALL)
_BLACKED: Final = Pattern(r"\[redacted:\w{1,40}\]")
"""What a secret was blacked out with: the sentence around it says nothing, and those beside it do."""
_QUOTE_LINES: Final = Pattern(r"^[ \t]*(?:>|\|).*$", re.MULTILINE)
_QUOTES: Final = Pattern(
    r"[\"“”«»„][^\"“”«»„\n]{1,400}[\"“”«»„]|「[^」\n]{1,400}」|『[^』\n]{1,400}』|《[^》\n]{1,100}》|(?<!\w)'[^'\n]{2,200}'(?!\w)"
)
_SPEECH_LINES: Final = Pattern(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t].*$|^[^\n:：]{1,40}[:：][ \t]*\S.*$", re.MULTILINE)
_VERB: Final = (
    r"(?:is|are|was|were|has|have|had|does|can|will|likes|loves|hates|prefers|lives|works|wants|needs|plays"
    r"|(?:is|are|does|do|ca|wo)n['’]t)"
)
_JOINT: Final = Pattern(
    r"(?:[,;，；]| [-—–])? ?\b(?:and|but|so) (?="
    rf"(?:I|I['’]\w+|[Mm]y|[Ww]e|[Ww]e['’]\w+|[Oo]ur|it|that|this|there|you|your)\b|(?:[\w'’-]+ ){{0,4}}?{_VERB}\b)"
    r"|(?:[,;]| [-—–]) ?(?=(?:I|I['’]\w+|[Mm]y|[Ww]e|[Ww]e['’]\w+)\b)"
    r"|[,，；;] ?(?:但是?|而且|所以|不过)?(?=我)"
)
"""Where a sentence goes on with another statement: what is said there is no part of what was said before."""
_OWN: Final = Pattern(r"(?:I|I['’]\w+|[Mm]y|[Ww]e|[Ww]e['’]\w+|[Oo]ur)\b|我")
_INTRODUCED: Final = Pattern(
    r"\s*(?:[Hh]i|[Hh]ello|[Hh]ey|[Gg]ood (?:morning|afternoon|evening))(?: there| all| everyone)?[,.!]* "
    r"(?:(?:I['’]m|I am|[Tt]his is) (?P<name>[A-ZÀ-ÖØ-Þ][\w'’-]*\w(?: [A-ZÀ-ÖØ-Þ][\w'’-]*\w){0,2}))"
    r"(?=[.,!;\n]| (?:and|from)\b|\s*\Z)"
)
_PEOPLES: Final = Pattern(
    r"\w+(?:ish|ese|ench|utch|eek)\b|(?:Africa|America|Asia|Australia|Austria|Belgia|Brazilia|Bulgaria|Canadia"
    r"|Catala|Croatia|Cuba|Egyptia|Estonia|Europea|Germa|Hungaria|India|Indonesia|Irania|Italia|Jorda|Kenya|Korea"
    r"|Latvia|Lithuania|Mexica|Moroccan?|Nigeria|Norwegia|Peruvia|Romania|Russia|Serbia|Slovakia|Syria|Tunisia|Ukrainia"
    r"|Venezuela)n\b|Arab|Czech|Iraqi|Israeli|Pakistani|Thai|Swiss|Catholic|Protestant|Muslim|Hindu|Buddhist|Sikh"
    r"|Christian\b(?! [A-Z])"
)
"""What a capital letter and "I'm" go before that is no name."""
_URL: Final = Pattern(r"\S+://\S+")
_SENTENCES: Final = Pattern(r"[^.!?。！？；;\n]*[.!?。！？；;\n]?")
_GAP: Final = "\u0000"
"""Stands where something was cut out: a sentence that lost a part is no longer what was said."""

_REQUEST: Final = Pattern(
    r"(?:(?:please|kindly|can you|could you|just) )*"
    r"(?:remember|note|keep in mind|don['’]t forget|bear in mind|make a note)"
    r"(?: this| for me)?(?: that|:|,)? (?P<rest>\S.*)",
    re.IGNORECASE,
)
_ZH_REQUEST: Final = Pattern(r"(?:请|帮我|麻烦)?(?:你)?(?:记住|记得|记一下|记下来|别忘了)[：:，, ]*(?P<rest>\S.*)")
_OPENING: Final = Pattern(
    r"\A(?:(?:by the way|btw|also|well|so|oh|hi|hello|hey|ok|okay|yes|no|yeah|actually|fyi|for your information|in fact"
    r"|as you know|just so you know|to be honest|honestly|anyway|and|but|thanks|thank you|sure|right"
    r"|对了|顺便说一下|顺便说|其实|另外|还有|你好|您好|嗯|是的|不|哦)(?: [A-Z]\w+)?[,，:：! ]+)+",
    re.IGNORECASE,
)
_UNSURE: Final = Pattern(
    r"\b(?:if|unless|whether|would|could|might|(?:i|we|you|it) may|maybe|perhaps|probably|possibly|suppose"
    r"|supposedly|imagine|pretend"
    r"|assume|assuming|wish|hope|hopefully|almost|nearly|as if|as though|let['’]s say|say that|for example|e\.g"
    r"|used to|back then|when i was|in my dream|dreamt|dreamed|joking|kidding|not sure|i guess|i think|i suppose"
    r"|thinking (?:of|about)|considering|planning|going to|want to|wanted to|story|novel character|act as|role ?play"
    r"|(?<!/)(?:he|she|they)(?!/)|says?|said|told|tells|wrote|writes|claims?|claimed|according|heard|apparently"
    r"|quote|translate"
    r"|correct this|proofread|rewrite|summari[sz]e|today|tonight|yesterday|tomorrow|this (?:morning|afternoon|evening)"
    r"|right now|at the moment|for now|temporarily)\b",
    re.IGNORECASE,
)
_ZH_UNSURE: Final = Pattern(
    r"如果|假如|假设|要是|的话|可能|也许|大概|或许|应该|似乎|好像|听说|据说|他说|她说|他们说|有人说|以前|曾经|过去|小时候"
    r"|希望|想要|打算|准备|考虑|假装|扮演|开玩笑|翻译|例如|比如|今天|明天|昨天|今晚|暂时|刚才|吗$|呢$|是不是|有没有|梦见|梦到|是否"
)
_ERRAND: Final = Pattern(
    r"(?:to|when|how|what|why|where|who|the time|me|us|it|this|that)\b|要|去|带|我们", re.IGNORECASE
)
_FIRST: Final = Pattern(r"\b(?:I|my|we|our)\b|我|我们", re.IGNORECASE)
_SMALL_I: Final = Pattern(r"(?<![\w.-])i(?=['’](?:m|ve)\b| [a-z])")
_TELLS: Final = Pattern(
    r"\w+ (?:is|are|was|has|have|lives?|works?|likes?|costs?|starts?|ends?|opens?|closes?)\b|[是有在叫]"
)


class Gleaned(Value):
    """A fact that a user stated, and the words in which he did."""

    operation: FactOperation
    kind: Kind
    topic: str
    content: str
    said: str


def glean(text: str, /, *, speaker: str | None = None) -> tuple[Gleaned, ...]:
    """Return the facts that a user's message states outright, in its order; of one topic, the last.

    Topics carry the speaker's name where one is known, so that two people's facts never meet in one slot.
    """
    if len(text) > READ_CHARS:
        return ()
    found: dict[tuple[Kind, str], Gleaned] = {}
    for fact in chain(_introduced(text, speaker), *(_read(sentence, speaker) for sentence in sentences(text))):
        found.pop((fact.kind, fact.topic), None)
        found[fact.kind, fact.topic] = fact
    return tuple(found.values())[:FACTS_PER_MESSAGE]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the user's own voice."""
    for part in (_BLACKED, _CODE, _FENCE, _QUOTE_LINES, _QUOTES, _URL):
        text = part.compiled.sub(_GAP, text)
    for line in text.splitlines():
        # A list or a script is material, unless somebody asks to remember what stands behind the colon.
        is_addressed = any(start.compiled.match(line) for start in (_REQUEST, _ZH_REQUEST, _OPENING))
        if _SPEECH_LINES.compiled.fullmatch(line) and not is_addressed:
            continue
        for found in _SENTENCES.compiled.findall(_abbreviations_kept(line)):
            sentence = found.replace("\u0001", ".").strip()
            if 4 <= len(sentence) <= SENTENCE_CHARS and _GAP not in sentence:
                yield sentence


def _abbreviations_kept(line: str) -> str:
    return re.sub(r"\b(St|Mr|Mrs|Ms|Dr|Prof|e\.g|i\.e|vs)\.", lambda found: found[0].replace(".", "\u0001"), line)


def _introduced(text: str, speaker: str | None) -> Iterator[Gleaned]:
    """Yield the name that somebody gives with his greeting, who begins by introducing himself."""
    met = _INTRODUCED.compiled.match(text)
    if met is not None and not _PEOPLES.compiled.match(met["name"]):
        fact = _match(INTRODUCTION, met["name"], speaker)
        if fact is not None:
            yield fact


def _read(sentence: str, speaker: str | None) -> Iterator[Gleaned]:
    """Yield what each statement of a sentence says; where it was to be remembered and one says nothing, all of it."""
    if sentence[-1] in "?？":
        return
    bare = _SMALL_I.compiled.sub("I", sentence).rstrip(".!。！；; \n\t)")
    asked = _REQUEST.compiled.fullmatch(_OPENING.compiled.sub("", bare, count=1)) or _ZH_REQUEST.compiled.fullmatch(
        bare
    )
    stated = _OPENING.compiled.sub("", asked["rest"] if asked else bare, count=1).strip()
    if _UNSURE.compiled.search(stated) or _ZH_UNSURE.compiled.search(stated):
        return
    parts = [part.strip() for part in _JOINT.compiled.split(stated) if part.strip()]
    # "In summer, I live in Nice" states nothing: what goes before decides how the rest is meant.
    meant = parts if _OWN.compiled.match(stated) else parts[:1]
    read = [fact for part in meant if (fact := _stated(part, speaker)) is not None]
    yield from read
    if asked and len(read) < len(parts) and (told := _as_asked(stated, speaker)) is not None:
        yield told


def _stated(part: str, speaker: str | None) -> Gleaned | None:
    for clause in _clauses(part):
        for rule in (*ENGLISH, *CHINESE):
            fact = _match(rule, clause, speaker)
            if fact is not None:
                return fact
    return None


def _clauses(stated: str) -> Iterator[str]:
    """Yield the whole statement, then its first part where it goes on with more."""
    yield stated
    head = re.split(r",? (?:and|but|so|because|since|which|where|who)\b|[，,—–]| - ", stated, maxsplit=1)[0].strip()
    if head and head != stated:
        yield head


def _match(rule: Rule, clause: str, speaker: str | None) -> Gleaned | None:
    match = rule.pattern.compiled.fullmatch(clause)
    if match is None:
        return None
    groups = {name: (value or "").strip(" ,.'’") for name, value in match.groupdict().items()}
    if not groups.get("x") or not rule.holds(groups):
        return None
    names = {"y": "", "z": "", **groups}
    topic = _topic(rule.topic.format(**{name: value.casefold() for name, value in names.items()}), speaker)
    if len(topic) > limits.CANDIDATE_TOPIC_CHARS:
        return None  # cut, it could meet another matter in one slot
    content = " ".join(rule.content.format(who=speaker or SOMEBODY, **names).split())
    return Gleaned(operation=rule.operation, kind=rule.kind, topic=topic, content=content, said=clause)


def _as_asked(stated: str, speaker: str | None) -> Gleaned | None:
    """Return what somebody asked to be remembered, in his words, where it is a statement and no errand."""
    if _ERRAND.compiled.match(stated):
        return None
    is_short = len(stated) < 8 or (stated.isascii() and len(stated.split()) < 3)
    if is_short or not (_FIRST.compiled.search(stated) or _TELLS.compiled.search(stated)):
        return None
    words = similarity.normalise(stated).split()
    topic = " ".join(words[:6]) or stated[:20]
    who = speaker or SOMEBODY
    return Gleaned(
        operation=FactOperation.UPSERT,
        kind=Kind.FACT,
        topic=_topic(f"note: {topic}", speaker)[: limits.CANDIDATE_TOPIC_CHARS],
        content=f"{who} asked to remember: {stated}",
        said=stated,
    )


def _topic(topic: str, speaker: str | None) -> str:
    return topic if speaker is None else f"{speaker}: {topic}"
