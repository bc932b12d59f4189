"""English sentences from which a lasting fact can be read."""

import re
from typing import Final

from elytron_core.planes.long_term import FactOperation, Kind
from elytron_core.policy.extraction.rule import is_age, rule
from elytron_core.text.lazy_regex import Pattern

_NAME = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_NAMES = rf"{_NAME}(?: {_NAME}){{0,2}}"
_PLACE = rf"(?:the )?{_NAME}(?:[ ,]{{1,2}}(?:(?:de|da|do|del|la|of|am|upon|sur) )?{_NAME}){{0,3}}"
_THING = r"[\w][\w'’&+#./ -]{1,60}?"
_VERY = r"(?:(?:really|absolutely|truly|also|just|totally|still) )?"
_AM = r"I(?:['’]m| am)"
_JOBS = (
    "accountant|actor|actress|analyst|architect|artist|baker|barista|biologist|builder|carpenter|chef|chemist|cook"
    "|data scientist|dentist|designer|developer|doctor|driver|economist|editor|electrician|engineer|farmer|firefighter"
    "|gardener|illustrator|journalist|lawyer|librarian|manager|mechanic|midwife|musician|nurse|painter|paramedic"
    "|pharmacist|photographer|physicist|physiotherapist|pilot|plumber|policeman|policewoman|postman|product manager"
    "|professor|programmer|psychologist|researcher|salesman|scientist|secretary|social worker|software engineer|student"
    "|surgeon|teacher|therapist|translator|vet|veterinarian|waiter|waitress|web developer|writer"
)
_KIN = (
    "wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|mother|mum|mom|father|dad|sister|brother|son|daughter|aunt"
    "|uncle|cousin|grandmother|grandma|grandfather|grandpa|niece|nephew|boss|manager|best friend|roommate|flatmate"
    "|neighbou?r|dog|cat|horse|parrot|rabbit|hamster"
)
_FOODS = (
    "meat|red meat|pork|beef|fish|seafood|shellfish|dairy|milk|cheese|eggs|gluten|wheat|nuts|peanuts|sugar|mushrooms"
    "|chicken|lamb|soy|honey|garlic|onions|spicy food|raw fish"
)
_ILLS = (
    "diabetes|type [12] diabetes|asthma|epilepsy|high blood pressure|hypertension|migraines?|ADHD|dyslexia|arthritis"
    "|celiac disease|coeliac disease|a pacemaker|a heart condition"
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_ORDINAL = r"(?:the )?\d{1,2}(?:st|nd|rd|th)?"
_DAY = rf"(?:{_ORDINAL}(?: of)? (?:{_MONTHS})|(?:{_MONTHS}) {_ORDINAL})(?:,? \d{{4}})?"
_COUNT = r"(?:a|an|one|two|three|four|five|six)"
_NOT_PLACES: Final = Pattern(rf"(?:{_MONTHS}|\w+day)\b")
_POINTS_AWAY: Final = Pattern(
    r"(?:it|that|this|these|those|them|you|your|yours|his|her|him|their|the|how|what|when|where|which|who|one|some"
    r"|any|more|less|both|all|each|another|either|neither|so|too|very|my|our|being able|having you|nothing|something"
    r"|everything|anything|here|there)\b",
    re.IGNORECASE,
)
"""What a thing begins with that only its conversation can tell: "I like that" says nothing that lasts."""


def _is_place(found: dict[str, str]) -> bool:
    return not _NOT_PLACES.compiled.match(found["x"])


def _stands_alone(found: dict[str, str]) -> bool:
    return not _POINTS_AWAY.compiled.match(found["x"]) and len(found["x"].split()) <= 8


INTRODUCTION: Final = rule(Kind.PROFILE, f"(?P<x>{_NAMES})", "name", "{who} is called {x}")
"""What a name says that somebody introduced himself by."""

ENGLISH: Final = (
    rule(
        Kind.PROFILE,
        f"(?:[Mm]y (?:full |first )?name is|{_AM} called|(?:[Pp]lease )?[Cc]all me|[Ee]veryone calls me|[Pp]eople "
        f"call me) (?P<x>{_NAMES})",
        "name",
        "{who} is called {x}",
    ),
    rule(
        Kind.PROFILE,
        f"(?:(?:I|[Ww]e) (?:now |currently )?live|{_AM} (?:now |currently )?(?:living|based)) (?:in|near) (?P<x>"
        rf"{_PLACE})(?: now)?(?: with (?:my|our) [\w'’ ,-]{{2,60}})?",
        "residence",
        "{who} lives in {x}",
        holds=_is_place,
    ),
    rule(
        Kind.PROFILE,
        f"(?:I|[Ww]e)(?:['’]ve| have)? (?:just |recently |finally )?moved (?:from {_PLACE} )?to (?P<x>{_PLACE})(?:"
        rf" (?:last|this) (?:week|month|year|spring|summer|autumn|winter)| in (?:{_MONTHS}|\d{{4}}))?",
        "residence",
        "{who} lives in {x}",
        holds=_is_place,
    ),
    rule(
        Kind.PROFILE,
        f"(?:{_AM} (?:originally )?from|I come from|I was born in|I was born and raised in|I grew up in) (?P<x>"
        f"{_PLACE})",
        "origin",
        "{who} comes from {x}",
        holds=_is_place,
    ),
    rule(
        Kind.PROFILE,
        f"(?:I work as|{_AM}|I(?:['’]m| am) working as|[Mm]y job is(?: being)?) (?:an? )(?P<x>(?:[a-z]+ ){{0,2}}"
        rf"(?:{_JOBS}))(?: (?:at|for|in) (?:a |an |the )?[\w' -]{{2,40}})?(?: by (?:trade|profession))?",
        "occupation",
        "{who} works as {x}",
    ),
    rule(
        Kind.PROFILE,
        f"I(?: now| currently)? work (?:at|for) (?P<x>(?:the )?{_NAME}(?: (?:(?:of|and|&) )?{_NAME}){{0,4}})",
        "employer",
        "{who} works at {x}",
        holds=_is_place,
    ),
    rule(
        Kind.PROFILE,
        rf"{_AM} (?P<x>\d{{1,3}})(?: years old| years of age)",
        "age",
        "{who} is {x} years old",
        holds=is_age,
    ),
    rule(
        Kind.PROFILE,
        f"(?:[Mm]y birthday is(?: on)?|I was born on) (?P<x>{_DAY})",
        "birthday",
        "{who}'s birthday is {x}",
    ),
    rule(
        Kind.PROFILE,
        f"{_AM} (?P<x>married|engaged|divorced|widowed)(?: to (?P<y>{_NAMES}))?",
        "marital status",
        "{who} is {x} {y}",
    ),
    rule(
        Kind.PROFILE,
        f"I speak (?:fluent )?(?P<x>{_NAME}(?:(?:, | and |, and ){_NAME}){{0,4}})(?: fluently| at home)?",
        "languages",
        "{who} speaks {x}",
    ),
    rule(
        Kind.PROFILE,
        f"[Mm]y (?:native language|mother tongue|first language) is (?P<x>{_NAME})",
        "native language",
        "{who}'s native language is {x}",
    ),
    rule(Kind.PROFILE, r"[Mm]y pronouns are (?P<x>\w+/\w+(?:/\w+)?)", "pronouns", "{who}'s pronouns are {x}"),
    rule(
        Kind.PROFILE,
        r"(?:[Mm]y time ?zone is|I(?:['’]m| am) in the) (?P<x>(?:UTC|GMT)[+-]?\d{0,2}|CET|EST|PST|[A-Z][a-z]+ [Tt]"
        "ime)(?: time ?zone)?",
        "time zone",
        "{who}'s time zone is {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        f"{_AM} {_VERY}(?:a |an )?(?:strict )?(?P<x>vegetarian|vegan|pescatarian|teetotal(?:l?er)?|halal|kosher|la"
        "ctose[- ]intolerant|gluten[- ]intolerant|coeliac|celiac)",
        "diet: {x}",
        "{who} is {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        f"I (?:don['’]t|do not|can['’]t|cannot|never) (?:eat|have|drink) (?P<x>{_FOODS}|alcohol|coffee|caffeine)"
        "(?: at all| anymore)?",
        "diet: {x}",
        "{who} does not take {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        f"{_AM} {_VERY}(?:severely |deadly |highly |very )?allergic to (?P<x>{_THING})",
        "allergy: {x}",
        "{who} is allergic to {x}",
        holds=_stands_alone,
    ),
    rule(
        Kind.CONSTRAINT,
        "I have an? (?:severe |bad |mild )?(?P<x>[a-z]+(?: [a-z]+)?) allergy",
        "allergy: {x}",
        "{who} is allergic to {x}",
    ),
    rule(Kind.CONSTRAINT, f"I (?:have|suffer from|live with) (?P<x>{_ILLS})", "health: {x}", "{who} has {x}"),
    rule(
        Kind.CONSTRAINT,
        f"{_AM} (?P<x>colou?r[- ]?blind|left[- ]handed|deaf|blind|hard of hearing|dyslexic|diabetic|asthmatic|preg"
        "nant)",
        "health: {x}",
        "{who} is {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        "I (?:use|am in|need) a (?P<x>wheelchair|walking frame|hearing aid|screen reader)",
        "health: {x}",
        "{who} uses a {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        "I (?:can['’]t|cannot|don['’]t know how to) (?P<x>drive|swim|ride a bike|ride a bicycle)",
        "ability: {x}",
        "{who} cannot {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        f"{_AM} (?:afraid|scared|terrified) of (?P<x>flying|heights|spiders|dogs|snakes|the dark|needles|water|ele"
        "vators|lifts)",
        "fear: {x}",
        "{who} is afraid of {x}",
    ),
    rule(
        Kind.PREFERENCE,
        f"[Mm]y (?:all-time )?favou?rite (?P<y>[a-z][a-z ]{{2,30}}?) (?:is|are) (?P<x>{_THING})",
        "favourite {y}",
        "{who}'s favourite {y} is {x}",
        holds=_stands_alone,
    ),
    rule(
        Kind.PREFERENCE,
        f"I {_VERY}prefer (?P<x>{_THING}) (?:to|over|rather than|instead of) (?P<y>{_THING})",
        "taste: {x}",
        "{who} prefers {x} to {y}",
        holds=_stands_alone,
    ),
    rule(
        Kind.PREFERENCE,
        rf"I {_VERY}prefer (?P<x>[a-z][\w-]+(?: [a-z][\w-]+){{0,3}})",
        "taste: {x}",
        "{who} prefers {x}",
        holds=_stands_alone,
    ),
    rule(
        Kind.PREFERENCE,
        f"I {_VERY}(?:love|like|enjoy|adore) (?P<x>{_THING})(?: (?:a lot|very much|so much))?",
        "taste: {x}",
        "{who} likes {x}",
        holds=_stands_alone,
    ),
    rule(
        Kind.PREFERENCE,
        f"I {_VERY}(?:hate|dislike|detest|can['’]t stand|don['’]t like|do not like|don['’]t enjoy) (?P<x>{_THING})"
        "(?: (?:at all|anymore|any more))?",
        "taste: {x}",
        "{who} dislikes {x}",
        holds=_stands_alone,
    ),
    rule(
        Kind.RELATIONSHIP,
        f"[Mm]y (?:older |younger |little |big |eldest |youngest )?(?P<y>{_KIN})(?:['’]s name is| is (?:called|nam"
        f"ed)| goes by) (?P<x>{_NAMES})",
        "{y}: {x}",
        "{who}'s {y} is called {x}",
    ),
    rule(
        Kind.RELATIONSHIP,
        f"[Mm]y (?:older |younger |little |big |eldest |youngest )?(?P<y>{_KIN}),? (?P<x>{_NAME}),? (?P<z>(?:is|li"
        rf"ves|works|studies|has|plays|loves|likes|teaches|was born) [\w' ,-]{{2,80}})",
        "{y}: {x}",
        "{who}'s {y} {x} {z}",
    ),
    rule(
        Kind.RELATIONSHIP,
        f"I have (?P<x>{_COUNT} (?:older |younger |little |big )?(?:{_KIN}|kids?|child(?:ren)?)s?)(?:,? (?:called|"
        f"named) (?P<y>{_NAMES}(?:(?:, | and |, and ){_NAMES}){{0,4}}))?",
        "family: {x}",
        "{who} has {x} {y}",
    ),
    rule(
        Kind.PROJECT,
        f"(?:{_AM}|[Ww]e(?:['’]re| are)) (?:currently |now )?(?:working on|building|writing|developing) (?P<x>(?:a"
        rf"n? |our |my )(?:[\w'-]+ ?){{1,10}}\w)",
        "project: {x}",
        "{who} is working on {x}",
    ),
    rule(
        Kind.FACT,
        r"I (?P<y>drive|own|play) (?P<x>(?:an? |the )[\w-]+(?: [\w-]+){0,4})",
        "{y}: {x}",
        "{who} {y}s {x}",
        holds=lambda found: not _POINTS_AWAY.compiled.match(found["x"].removeprefix("the ")),
    ),
    rule(
        Kind.PREFERENCE,
        "(?:[Pp]lease )?(?P<y>[Aa]lways|[Nn]ever) (?P<x>(?:answer|reply|respond|write|use|speak|address|show|give"
        r")\b[\w', /%-]{3,100})",
        "wish: {x}",
        "{who} wishes: {y} {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        f"(?:{_AM} no longer|{_AM} not) (?:a |an )?(?P<x>vegetarian|vegan|pescatarian)(?: any ?more)?",
        "diet: {x}",
        "",
        operation=FactOperation.DELETE,
    ),
    rule(
        Kind.PROFILE,
        f"I (?:no longer|don['’]t|do not) (?P<y>work) (?:at|for) (?P<x>{_NAME}(?: {_NAME}){{0,3}})(?: any ?more)?",
        "employer",
        "",
        operation=FactOperation.DELETE,
    ),
    rule(
        Kind.PREFERENCE,
        f"I no longer (?:like|love|enjoy|eat|drink) (?P<x>{_THING})",
        "taste: {x}",
        "",
        holds=_stands_alone,
        operation=FactOperation.DELETE,
    ),
)
