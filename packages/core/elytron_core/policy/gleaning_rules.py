"""The sentences from which a lasting fact can be read without a model: patterns, and what each says.

They are few and narrow on purpose: a fact that is missed can be said again, a false one is believed. Each pattern takes
a whole sentence, in the first person and the present, as `gleaning` hands it over.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from elytron_core.planes.long_term import FactOperation, Kind


class Rule(NamedTuple):
    """A form of sentence: what kind of fact it states, under which topic, and in which words.

    `topic` and `content` are filled with the pattern's groups; `{who}` is whoever spoke. `holds` looks at the groups.
    """

    kind: Kind
    pattern: re.Pattern[str]
    topic: str
    content: str
    holds: Callable[[dict[str, str]], bool] = bool
    operation: FactOperation = FactOperation.UPSERT


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
_DAY = rf"(?:(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})|(?:{_MONTHS}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?)(?:,? \d{{4}})?"
_COUNT = r"(?:a|an|one|two|three|four|five|six)"
_NOT_PLACES: Final = re.compile(rf"(?:{_MONTHS}|\w+day|January)\b")
_POINTS_AWAY: Final = re.compile(
    r"(?:it|that|this|these|those|them|you|your|yours|his|her|him|their|the|how|what|when|where|which|who|one|some"
    r"|any|more|less|both|all|each|another|either|neither|so|too|very|my|our|being able|having you|nothing|something"
    r"|everything|anything|here|there)\b",
    re.IGNORECASE,
)
"""What a thing begins with that only its conversation can tell: "I like that" says nothing that lasts."""


def _rule(
    kind: Kind,
    sentence: str,
    topic: str,
    content: str,
    /,
    *,
    holds: Callable[[dict[str, str]], bool] = bool,
    operation: FactOperation = FactOperation.UPSERT,
) -> Rule:
    return Rule(kind, re.compile(sentence), topic, content, holds, operation)


def _is_place(found: dict[str, str]) -> bool:
    return not _NOT_PLACES.match(found["x"])


def _stands_alone(found: dict[str, str]) -> bool:
    return not _POINTS_AWAY.match(found["x"]) and len(found["x"].split()) <= 8


def _is_age(found: dict[str, str]) -> bool:
    return 3 <= int(found["x"]) <= 115


ENGLISH: Final = (
    _rule(Kind.PROFILE, rf"(?:[Mm]y (?:full |first )?name is|{_AM} called|(?:[Pp]lease )?[Cc]all me|[Ee]veryone calls me|[Pp]eople call me) (?P<x>{_NAMES})", "name", "{who} is called {x}"),
    _rule(Kind.PROFILE, rf"(?:I (?:now |currently )?live|{_AM} (?:now |currently )?(?:living|based)) (?:in|near) (?P<x>{_PLACE})(?: now)?", "residence", "{who} lives in {x}", holds=_is_place),
    _rule(Kind.PROFILE, rf"(?:I|[Ww]e)(?:['’]ve| have)? (?:just |recently |finally )?moved (?:from {_PLACE} )?to (?P<x>{_PLACE})(?: (?:last|this) (?:week|month|year|spring|summer|autumn|winter)| in (?:{_MONTHS}|\d{{4}}))?", "residence", "{who} lives in {x}", holds=_is_place),
    _rule(Kind.PROFILE, rf"(?:{_AM} (?:originally )?from|I come from|I was born in|I was born and raised in|I grew up in) (?P<x>{_PLACE})", "origin", "{who} comes from {x}", holds=_is_place),
    _rule(Kind.PROFILE, rf"(?:I work as|{_AM}|I(?:['’]m| am) working as|[Mm]y job is(?: being)?) (?:an? )(?P<x>(?:[a-z]+ ){{0,2}}(?:{_JOBS}))(?: (?:at|for|in) (?:a |an |the )?[\w' -]{{2,40}})?(?: by (?:trade|profession))?", "occupation", "{who} works as {x}"),
    _rule(Kind.PROFILE, rf"I(?: now| currently)? work (?:at|for) (?P<x>(?:the )?{_NAME}(?: (?:(?:of|and|&) )?{_NAME}){{0,4}})", "employer", "{who} works at {x}", holds=_is_place),
    _rule(Kind.PROFILE, rf"{_AM} (?P<x>\d{{1,3}})(?: years old| years of age)", "age", "{who} is {x} years old", holds=_is_age),
    _rule(Kind.PROFILE, rf"(?:[Mm]y birthday is(?: on)?|I was born on) (?P<x>{_DAY})", "birthday", "{who}'s birthday is {x}"),
    _rule(Kind.PROFILE, rf"{_AM} (?P<x>married|engaged|divorced|widowed)(?: to (?P<y>{_NAMES}))?", "marital status", "{who} is {x} {y}"),
    _rule(Kind.PROFILE, rf"I speak (?:fluent )?(?P<x>{_NAME}(?:(?:, | and |, and ){_NAME}){{0,4}})(?: fluently| at home)?", "languages", "{who} speaks {x}"),
    _rule(Kind.PROFILE, rf"[Mm]y (?:native language|mother tongue|first language) is (?P<x>{_NAME})", "native language", "{who}'s native language is {x}"),
    _rule(Kind.PROFILE, r"[Mm]y pronouns are (?P<x>\w+/\w+(?:/\w+)?)", "pronouns", "{who}'s pronouns are {x}"),
    _rule(Kind.PROFILE, r"(?:[Mm]y time ?zone is|I(?:['’]m| am) in the) (?P<x>(?:UTC|GMT)[+-]?\d{0,2}|CET|EST|PST|[A-Z][a-z]+ [Tt]ime)(?: time ?zone)?", "time zone", "{who}'s time zone is {x}"),
    _rule(Kind.CONSTRAINT, rf"{_AM} {_VERY}(?:a |an )?(?:strict )?(?P<x>vegetarian|vegan|pescatarian|teetotal(?:l?er)?|halal|kosher|lactose[- ]intolerant|gluten[- ]intolerant|coeliac|celiac)", "diet: {x}", "{who} is {x}"),
    _rule(Kind.CONSTRAINT, rf"I (?:don['’]t|do not|can['’]t|cannot|never) (?:eat|have|drink) (?P<x>{_FOODS}|alcohol|coffee|caffeine)(?: at all| anymore)?", "diet: {x}", "{who} does not take {x}"),
    _rule(Kind.CONSTRAINT, rf"{_AM} {_VERY}(?:severely |deadly |highly |very )?allergic to (?P<x>{_THING})", "allergy: {x}", "{who} is allergic to {x}", holds=_stands_alone),
    _rule(Kind.CONSTRAINT, r"I have an? (?:severe |bad |mild )?(?P<x>[a-z]+(?: [a-z]+)?) allergy", "allergy: {x}", "{who} is allergic to {x}"),
    _rule(Kind.CONSTRAINT, rf"I (?:have|suffer from|live with) (?P<x>{_ILLS})", "health: {x}", "{who} has {x}"),
    _rule(Kind.CONSTRAINT, rf"{_AM} (?P<x>colou?r[- ]?blind|left[- ]handed|deaf|blind|hard of hearing|dyslexic|diabetic|asthmatic|pregnant)", "health: {x}", "{who} is {x}"),
    _rule(Kind.CONSTRAINT, r"I (?:use|am in|need) a (?P<x>wheelchair|walking frame|hearing aid|screen reader)", "health: {x}", "{who} uses a {x}"),
    _rule(Kind.CONSTRAINT, r"I (?:can['’]t|cannot|don['’]t know how to) (?P<x>drive|swim|ride a bike|ride a bicycle)", "ability: {x}", "{who} cannot {x}"),
    _rule(Kind.CONSTRAINT, rf"{_AM} (?:afraid|scared|terrified) of (?P<x>flying|heights|spiders|dogs|snakes|the dark|needles|water|elevators|lifts)", "fear: {x}", "{who} is afraid of {x}"),
    _rule(Kind.PREFERENCE, rf"[Mm]y (?:all-time )?favou?rite (?P<y>[a-z][a-z ]{{2,30}}?) (?:is|are) (?P<x>{_THING})", "favourite {y}", "{who}'s favourite {y} is {x}", holds=_stands_alone),
    _rule(Kind.PREFERENCE, rf"I {_VERY}prefer (?P<x>{_THING}) (?:to|over|rather than|instead of) (?P<y>{_THING})", "taste: {x}", "{who} prefers {x} to {y}", holds=_stands_alone),
    _rule(Kind.PREFERENCE, rf"I {_VERY}prefer (?P<x>[a-z][\w-]+(?: [a-z][\w-]+){{0,3}})", "taste: {x}", "{who} prefers {x}", holds=_stands_alone),
    _rule(Kind.PREFERENCE, rf"I {_VERY}(?:love|like|enjoy|adore) (?P<x>{_THING})(?: (?:a lot|very much|so much))?", "taste: {x}", "{who} likes {x}", holds=_stands_alone),
    _rule(Kind.PREFERENCE, rf"I {_VERY}(?:hate|dislike|detest|can['’]t stand|don['’]t like|do not like|don['’]t enjoy) (?P<x>{_THING})(?: (?:at all|anymore|any more))?", "taste: {x}", "{who} dislikes {x}", holds=_stands_alone),
    _rule(Kind.RELATIONSHIP, rf"[Mm]y (?:older |younger |little |big |eldest |youngest )?(?P<y>{_KIN})(?:['’]s name is| is (?:called|named)| goes by) (?P<x>{_NAMES})", "{y}: {x}", "{who}'s {y} is called {x}"),
    _rule(Kind.RELATIONSHIP, rf"[Mm]y (?:older |younger |little |big |eldest |youngest )?(?P<y>{_KIN}),? (?P<x>{_NAME}),? (?P<z>(?:is|lives|works|studies|has|plays|loves|likes|teaches|was born) [\w' ,-]{{2,80}})", "{y}: {x}", "{who}'s {y} {x} {z}"),
    _rule(Kind.RELATIONSHIP, rf"I have (?P<x>{_COUNT} (?:older |younger |little |big )?(?:{_KIN}|kids?|child(?:ren)?)s?)(?:,? (?:called|named) (?P<y>{_NAMES}(?:(?:, | and |, and ){_NAMES}){{0,4}}))?", "family: {x}", "{who} has {x} {y}"),
    _rule(Kind.PROJECT, rf"(?:{_AM}|[Ww]e(?:['’]re| are)) (?:currently |now )?(?:working on|building|writing|developing) (?P<x>(?:an? |our |my )(?:[\w'-]+ ?){{1,10}}\w)", "project: {x}", "{who} is working on {x}"),
    _rule(Kind.FACT, r"I (?P<y>drive|own|play|study) (?P<x>(?:an? |the )?[\w-]+(?: [\w-]+){0,4})", "{y}: {x}", "{who} {y}s {x}", holds=lambda found: not _POINTS_AWAY.match(found["x"].removeprefix("the "))),
    _rule(Kind.PREFERENCE, r"(?:[Pp]lease )?(?P<y>[Aa]lways|[Nn]ever) (?P<x>(?:answer|reply|respond|write|use|speak|address|show|give)\b[\w', /%-]{3,100})", "wish: {x}", "{who} wishes: {y} {x}"),
    _rule(Kind.CONSTRAINT, rf"(?:{_AM} no longer|{_AM} not) (?:a |an )?(?P<x>vegetarian|vegan|pescatarian)(?: any ?more)?", "diet: {x}", "", operation=FactOperation.DELETE),
    _rule(Kind.PROFILE, rf"I (?:no longer|don['’]t|do not) (?P<y>work) (?:at|for) (?P<x>{_NAME}(?: {_NAME}){{0,3}})(?: any ?more)?", "employer", "", operation=FactOperation.DELETE),
    _rule(Kind.PREFERENCE, rf"I no longer (?:like|love|enjoy|eat|drink) (?P<x>{_THING})", "taste: {x}", "", holds=_stands_alone, operation=FactOperation.DELETE),
)  # fmt: skip

_HAN = r"[\u3400-\u9fffA-Za-z·]"
_ZH_JOBS = (
    "医生|护士|老师|教师|教授|工程师|程序员|律师|会计|设计师|学生|研究生|作家|记者|厨师|司机|警察|画家|音乐家|摄影师|翻译"
    "|产品经理|公务员|销售|科学家|研究员|药剂师|建筑师|演员|农民"
)
_ZH_KIN = "妻子|老婆|太太|丈夫|老公|先生|儿子|女儿|哥哥|弟弟|姐姐|妹妹|妈妈|爸爸|母亲|父亲|爷爷|奶奶|外公|外婆|男朋友|女朋友|狗|猫|老板|室友"
_ZH_ILLS = "糖尿病|高血压|哮喘|心脏病|偏头痛|癫痫|关节炎|乳糖不耐"
_ZH_AWAY: Final = re.compile(r"你|您|他|她|它|这|那|哪|什么|怎么|谁|大家|我")


def _zh_stands_alone(found: dict[str, str]) -> bool:
    return not _ZH_AWAY.match(found["x"])


CHINESE: Final = (
    _rule(Kind.PROFILE, rf"(?:我叫|我的名字(?:是|叫)|叫我|请叫我)(?P<x>{_HAN}{{1,12}})(?:吧|就好|就行)?", "name", "{who} is called {x}", holds=_zh_stands_alone),
    _rule(Kind.PROFILE, rf"我(?:现在|目前)?(?:住在|定居在|生活在)(?P<x>{_HAN}{{2,14}})", "residence", "{who} lives in {x}", holds=_zh_stands_alone),
    _rule(Kind.PROFILE, rf"我(?:们)?(?:刚刚|刚|最近|已经|上个月|去年|今年)?搬(?:到|去)了?(?P<x>{_HAN}{{2,12}}?)了?", "residence", "{who} lives in {x}", holds=lambda found: _zh_stands_alone(found) and not re.match("新|楼|隔壁", found["x"])),
    _rule(Kind.PROFILE, rf"(?:我来自|我出生在|我出生于|我老家在|我从小在)(?P<x>{_HAN}{{2,12}}?)(?:长大)?", "origin", "{who} comes from {x}", holds=_zh_stands_alone),
    _rule(Kind.PROFILE, rf"我是(?:一名|一位|一个|个|名)?(?P<x>{_HAN}{{0,6}}(?:{_ZH_JOBS}))", "occupation", "{who} works as {x}", holds=_zh_stands_alone),
    _rule(Kind.PROFILE, rf"我(?:现在|目前)?在(?P<x>{_HAN}{{2,16}})(?:工作|上班|任职)", "employer", "{who} works at {x}", holds=lambda found: _zh_stands_alone(found) and not re.search("家$|努力|认真", found["x"])),
    _rule(Kind.PROFILE, r"我(?:今年|现在)?(?P<x>\d{1,3})岁(?:了)?", "age", "{who} is {x} years old", holds=_is_age),
    _rule(Kind.PROFILE, r"我的?生日(?:是|在)(?P<x>(?:\d{4}年)?\d{1,2}月\d{1,2}[日号])", "birthday", "{who}'s birthday is {x}"),
    _rule(Kind.PROFILE, r"我(?:已经)?(?P<x>结婚|离婚|订婚)了", "marital status", "{who}: {x}"),
    _rule(Kind.PROFILE, r"我(?:会说|会讲)(?P<x>[\u3400-\u9fff、和]{1,20}[语话文])", "languages", "{who} speaks {x}"),
    _rule(Kind.CONSTRAINT, rf"我对(?P<x>{_HAN}{{1,12}})(?:严重)?过敏", "allergy: {x}", "{who} is allergic to {x}", holds=_zh_stands_alone),
    _rule(Kind.CONSTRAINT, r"我(?:一直|现在)?(?:是)?(?P<x>吃素|素食者|素食主义者|吃纯素)(?:的)?", "diet: {x}", "{who}: {x}"),
    _rule(Kind.CONSTRAINT, rf"我(?:从来|从)?(?:不吃|不能吃|不喝|不能喝)(?P<x>{_HAN}{{1,6}})", "diet: {x}", "{who} does not take {x}", holds=lambda found: _zh_stands_alone(found) and not re.match("了|完|饱|早|午|晚", found["x"])),
    _rule(Kind.CONSTRAINT, rf"我(?:有|患有|得了)(?P<x>{_ZH_ILLS})", "health: {x}", "{who} has {x}"),
    _rule(Kind.CONSTRAINT, r"我(?:怕|害怕|恐)(?P<x>高|蛇|狗|黑|坐飞机|打针|蜘蛛)", "fear: {x}", "{who} is afraid of {x}"),
    _rule(Kind.PREFERENCE, rf"我最(?:喜欢|爱)的(?P<y>{_HAN}{{1,8}}?)是(?P<x>{_HAN}{{1,16}})", "favourite {y}", "{who}'s favourite {y} is {x}", holds=_zh_stands_alone),
    _rule(Kind.PREFERENCE, rf"我(?:很|最|非常|特别|一直|真的|也)?(?:喜欢|喜爱|热爱|爱吃|爱喝)(?P<x>{_HAN}{{1,14}})", "taste: {x}", "{who} likes {x}", holds=lambda found: _zh_stands_alone(found) and not found["x"].startswith(("的", "上了"))),
    _rule(Kind.PREFERENCE, rf"我(?:很|最|非常|特别|一直|真的|也)?(?:讨厌|不喜欢|不爱吃|不爱喝)(?P<x>{_HAN}{{1,14}})", "taste: {x}", "{who} dislikes {x}", holds=_zh_stands_alone),
    _rule(Kind.RELATIONSHIP, rf"我(?:的|家的|家)?(?P<y>{_ZH_KIN})(?:的名字)?(?:叫|名叫|是叫)(?P<x>{_HAN}{{1,10}})", "{y}: {x}", "{who}'s {y} is called {x}", holds=_zh_stands_alone),
    _rule(Kind.RELATIONSHIP, r"我有(?P<x>[一两二三四五]个(?:孩子|儿子|女儿|哥哥|弟弟|姐姐|妹妹)|[一两二三]只(?:猫|狗))", "family: {x}", "{who} has {x}"),
    _rule(Kind.PREFERENCE, r"(?:请|以后请|以后)(?P<y>总是|一直|永远不要|不要再|都)?用(?P<x>(?:中文|英文|英语|繁体中文|简体中文|日语|法语)(?:回答|回复)(?:我)?)", "wish: {x}", "{who} wishes: {x}"),
    _rule(Kind.PREFERENCE, rf"我(?:已经)?不再喜欢(?P<x>{_HAN}{{1,14}}?)了?", "taste: {x}", "", operation=FactOperation.DELETE),
)  # fmt: skip
