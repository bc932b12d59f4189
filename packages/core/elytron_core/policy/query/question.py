"""What kind of answer a question wants, read from its words: how many things, of which kind, whose, and of when.

Rules, not a model; where none fits, nothing is assumed. English first, with a few signs of Chinese.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core.clock import Instant
from elytron_core.policy.query.summary_requests import retells, without_asking
from elytron_core.policy.temporal.event_anchors import Anchor, anchor_in
from elytron_core.policy.temporal.time_ranges import Span, spans_in, without_relative
from elytron_core.text.features import Trait


class Owner(StrEnum):
    """Whose words a question is after."""

    USER = "user"
    ASSISTANT = "assistant"


class Version(StrEnum):
    """Which of several answers over time a question is after."""

    ANY = "any"
    LATEST = "latest"
    FIRST = "first"


class Question(NamedTuple):
    """A question as far as its words say what it wants."""

    text: str
    """What is to be looked for: the question without times told from where the asker stands, and without the words that
    ask for the telling, where more is in it."""
    fits: Trait
    """What the answer is likely to have in it; nothing where any text will do."""
    heeds: Trait
    """What holds from now on: all of it where something is to be made or advised, whatever it is about; otherwise what
    is to hold on the occasion that the question is about."""
    wants_several: bool
    """Whether the answer is likely to stand in several places: a list, a count, what two have in common."""
    owner: Owner
    version: Version
    spans: tuple[Span, ...]
    wants_guess: bool = False
    """Whether it asks for what may be concluded, which shares few words with what it is concluded from."""
    retells: bool = False
    """Whether what was said is to be told again: a summary, an order, how something went."""
    anchor: Anchor | None = None
    """What the time that it speaks of is told by, where no date says it."""


class _Opening(NamedTuple):
    """How a question begins in English, or what stands anywhere in a Chinese one."""

    english: re.Pattern[str]
    chinese: re.Pattern[str]

    def is_of(self, lowered: str, /) -> bool:
        """Tell whether the question begins so, or has it."""
        return bool(self.english.match(lowered) or (not lowered.isascii() and self.chinese.search(lowered)))


_WHEN = _Opening(
    re.compile(r"(?:when|how long|since when|(?:what|which) (?:date|day|month|year|time))\b"),
    re.compile("什么时候|哪天|几点|多久"),
)
_COUNT = _Opening(re.compile(r"how (?:many|much|often|old|far|tall|big)\b"), re.compile("多少|几[个次只岁]"))
_NAMED = _Opening(
    re.compile(r"(?:who|whose|whom|where|(?:which|what) (?:city|country|place|state|name))\b"),
    re.compile("谁|哪里|哪儿|什么名字"),
)
_SEVERAL = re.compile(
    r"^how (?:many|often)\b|\b(?:both|all the|all of|in common|different|various|kinds? of|types? of|some|list"
    r"|everything|summar(?:y|i[sz]e)|overview|timeline|(?:what|which) order|order in which"
    r"|step by step)\b|哪些|所有|列出|总结"
)
_PLURAL = re.compile(
    r"^(?:what|which)\s+(?:(?!(?:is|was|did|does|do|are|has)\b)[\w'-]+\s+){0,4}?[\w-]+(?<!s)s\b\s+(?:has|have|does|do"
    r"|did|are|were|is|was|can|could|might|would)\b"
)
_PLURAL_VERB = re.compile(r"^(?:what|which|who|where) (?:are|were|all|have)\b")
_PERFECT = re.compile(r"^(?:what|which|how|where|who|in what|in which)\b.*\b(?:has|have)\b")
_LATEST = re.compile(
    r"\b(?:now|nowadays|current|currently|latest|newest|up to date|these days|at the moment|presently|most recent"
    r"|still|any ?more|as of)\b|现在|目前|最新|如今"
)
_FIRST = re.compile(
    r"\b(?:original|originally|initially|at first|used to|before the (?:change|move|switch))\b|原来|最初|以前"
)
_HOW_LONG: Final = "how long"
_OF_ASSISTANT = re.compile(
    r"(?<!\bcan )(?<!\bcould )(?<!\bwould )(?<!\bwill )\byou(?:'ve| have| had)? (?:also )?(?:suggest|recommend|said"
    r"|say|tell|told|advise|mention|give|gave|given|explain|propos|provid|list|wrote|write|written|describ|outlin"
    r"|offer)|\byour (?:suggestion|recommendation|advice|answer|response|explanation|proposal|list)"
    r"|你(?:建议|推荐|说过|告诉)",
)

_MADE: Final = (
    "analy[sz]e|assess|book|brainstorm|build|buy|calculate|check|choose|code|come up with|compare|compose|convert"
    "|cook|correct|create|debug|define|describe|design|draft|edit|estimate|evaluate|explain|figure out|find (?:me|us"
    "|an?|some|something)|fix|give|help|implement|improve|invent|lay out|lend (?:me|us)|make|order|organi[sz]e"
    "|outline|paraphrase|phrase|pick|plan|polish|prepare|proofread|propose|put together|rank|recommend|refactor|reply"
    "|review|rewrite|set up|shorten|show|simplify|sketch|solve|sort out|suggest|sum up|teach"
    r"|tell (?:me|us) (?:how (?:to|an?|the|i|we)|what to)|translate|turn|(?:run|talk|walk) (?:me"
    r"|us) through (?:how to|the|\w+ing)|word|work out|write"
)
"""What somebody does who is to make or advise something; not what he does who is to tell what was."""
_MAKINGS: Final = (
    "breakfast|lunch|dinner|supper|snacks?|meals?|gifts?|presents?|recipes?|menu|playlist|outfit|itinerary|packing"
    " list|workout|names?|titles?|captions?|slogans?|questions|speech|toast"
)
_REQUEST = re.compile(
    # What somebody is asked to do, wherever a sentence begins, and whoever is asked.
    rf"(?:^|[.!?:;,] (?:and |so |but )?)(?:(?:please|pls|ok|hey|now|let's|(?:can|could|would"
    rf"|will) you(?: please)?) )*(?:(?:{_MADE})\b"
    r"|(?:please|(?:can|could|would|will) you|let's) \w"
    # What he needs, or is about to do.
    r"|(?:i|we) (?:need|want|would like|have to (?:write|pick|choose|cook|buy|make|decide)|can't decide)\b|(?:i"
    r"|we)'d like\b|need (?:an?|some|something|help)\b|(?:i'm |we're )?(?:thinking|planning|looking|trying|going"
    r"|considering|deciding|torn|unsure)\b"
    # What is to be, can be or is good to be done; what something means.
    r"|how (?:do|should|can|could|would|might|to)\b|when does one\b|what (?:should|shall|could|can|would|to)\b"
    r"|what(?:'s| is| are) (?:the best|an? good|an? nice|some|good|my options|the steps|known|the difference)\b"
    r"|what(?:'s| is) an? \w|how (?:about|come)\b|what are the pros\b|what do you make of\b|do (?:i|we) (?:have to"
    r"|(?:need|put|use|add|wash|start with) (?:to|an?|it|the))\b|what do (?:i|we) (?:pack|wear|say|bring|cook|put"
    r"|tell|write|buy|need)\b|what [\w-]+ (?:goes|go|works|work|fits|fit) with\b|(?:is|are) (?:an? |it "
    r"|\w+ing ).*\b(?:sensible|wise|safe|worth|okay|ok|good|better|enough|normal|realistic|legal|allowed|healthy"
    r"|too \w+)\b|(?:who|what|where|which|how) (?:\w+ ){0,2}(?:should|could|can) (?!have\b)\w|(?:who|what|where"
    r"|which)\b[^,]* (?:good|best|better|nice|right) for\b|(?:i'd|i would) love\b|i could (?:use|do with)\b|time to\b"
    r"|any chance of\b|thoughts\b|(?:next|first) steps?\b|how (?:much|many|long|often) .*\b(?:do|should|would) (?:i"
    r"|we) need\b|what (?:steps|strategies|ways|options|approach) \w+|what goes\b|what (?:does|do) .*\bmean\b"
    r"|why (?:does|do|is|are|am|isn't|doesn't|can't|won't) (?:the|an?|this|that|it|i|my)\b|how does .*\bwork\b"
    r"|(?:should|shall) \w+|(?:can|could|may|would) (?:i|we|one|an?)\b|(?:is|would) it (?:\w+ )?(?:okay|safe|wise"
    r"|worth|better)\b|(?:is|are) there (?:an?|any|some|something) (?:good|nice|decent|cheap|quick|easy|better|other"
    r"|simple|way|place)\b|(?:got|know|have you|do you (?:have|know)) (?:an?|any|some|something)\b|(?:which|what"
    r"|where|who|when)\b.* (?:(?:should|shall|could|can|would) (?:i|we|one|suit|be)|would you|do you suggest"
    r"|suits? (?:me|us)|is (?:best|right|better) for)\b"
    # The thing alone: "three names for a boat", "something to read".
    rf"|(?:(?:an?|some|any|\d+|two|three|four|five|six|ten|good|quick|easy|cheap|simple"
    rf"|nice) )*(?:\w+ )?(?:{_MAKINGS})"
    r" (?:for|to|with|under)\b|(?:an?|some|\d+|two|three|four|five|six|ten) (?:[\w-]+ ){1,3}(?:for|about) (?:an?|the"
    r"|my|our|tomorrow|tonight|next|sunday)\b(?!.*\?)|(?:something|anything|somewhere) (?:\w+ )?(?:to|for|with)\b)"
    r"|^what about\b|\bwhat (?:now|can be done|do you (?:think|suggest|recommend)|would you|is (?:going on|wrong))\b"
    r"|\bwhat's (?:going on|wrong)\b|\b(?:worth a look|(?:good|bad) idea|right for (?:me|us))\b|^(?!(?:where|who|when"
    r"|why)\b|.*\b(?:was|were)\b)(?:[\w'-]+ ){0,3}(?:ideas?|tips?|suggestions?|advice|recommendations?"
    r"|inspiration) (?:for|on|about)\b|\b(?:any|some) (?:\w+ )?(?:ideas?|tips?|suggestions?|advice|recommendations?"
    r"|thoughts)\b|推荐|建议|怎么做|帮我",
)
_OF_PAST = re.compile(
    r"\b(?:did|said|told|mention\w*|earlier|previous\w*|last time|so far|remind|recall|recap|sum up|summar\w+"
    r"|overview|(?:in|into|what|which) (?:\w+ )?order)\b|说过|总结"
)
_NO_WORD: Final = " ?!.,:;？！。，"
_GUESS = re.compile(
    r"^(?:would|might|could)\b(?! you\b)|\b(?:might|likely|probably|be considered|could be)\b|可能|也许|大概|会不会"
)


def read(text: str, now: Instant, /) -> Question:
    """Return what `text` asks for, as seen at `now`."""
    lowered = " ".join(text.lower().split())
    is_retold = retells(lowered)
    several = is_retold or _wants_several(lowered)
    fits = Trait.NOTHING
    if _WHEN.is_of(lowered):
        fits |= Trait.TIME
    if _COUNT.is_of(lowered):
        fits |= Trait.NUMBER
    if several or _NAMED.is_of(lowered):
        fits |= Trait.NAME
    if several:
        fits |= Trait.QUOTE
    is_to_somebody = "you" in lowered or "你" in lowered
    owner = Owner.ASSISTANT if is_to_somebody and _OF_ASSISTANT.search(lowered) else Owner.USER
    is_request = _REQUEST.search(lowered) is not None and _OF_PAST.search(lowered) is None
    spans = spans_in(text, now)
    return Question(
        _looked_for(text, lowered),
        fits,
        _heeded(owner, is_request=is_request),
        several,
        owner,
        _version(lowered),
        spans,
        _GUESS.search(lowered) is not None,
        is_retold,
        None if spans or is_request else anchor_in(text, lowered),
    )


def _heeded(owner: Owner, /, *, is_request: bool) -> Trait:
    if is_request:
        return Trait.STANDING
    return Trait.OCCASIONAL if owner is Owner.USER else Trait.NOTHING


def _looked_for(text: str, lowered: str) -> str:
    """Return `text` without what says only how, or from where, it is asked; as it is where nothing else is in it."""
    told = without_asking(text, lowered)
    return next((bare for bare in (without_relative(told), told) if bare.strip(_NO_WORD)), text)


def _version(lowered: str) -> Version:
    is_first = bool(_FIRST.search(lowered))
    if bool(_LATEST.search(lowered)) is is_first:
        return Version.ANY  # neither, or both are asked for
    return Version.FIRST if is_first else Version.LATEST


def _wants_several(lowered: str) -> bool:
    if _SEVERAL.search(lowered) or _PLURAL.search(lowered) or _PLURAL_VERB.search(lowered):
        return True
    return bool(_PERFECT.search(lowered)) and not lowered.startswith(_HOW_LONG)
