"""Chinese sentences from which a lasting fact can be read."""

import re
from typing import Final

from elytron_core.planes.long_term import FactOperation, Kind
from elytron_core.policy.extraction.rule import is_age, rule
from elytron_core.text.lazy_regex import Pattern

_HAN = r"[\u3400-\u9fffA-Za-z·]"
_ZH_JOBS = (
    "医生|护士|老师|教师|教授|工程师|程序员|律师|会计|设计师|学生|研究生|作家|记者|厨师|司机|警察|画家|音乐家|摄影师|翻译"
    "|产品经理|公务员|销售|科学家|研究员|药剂师|建筑师|演员|农民"
)
_ZH_KIN = (
    "妻子|老婆|太太|丈夫|老公|先生|儿子|女儿|哥哥|弟弟|姐姐|妹妹|妈妈|爸爸|母亲|父亲|爷爷|奶奶|外公|外婆"
    "|男朋友|女朋友|狗|猫|老板|室友"
)
_ZH_ILLS = "糖尿病|高血压|哮喘|心脏病|偏头痛|癫痫|关节炎|乳糖不耐"
_ZH_AWAY: Final = Pattern(r"你|您|他|她|它|这|那|哪|什么|怎么|谁|大家|我")


def _zh_stands_alone(found: dict[str, str]) -> bool:
    return not _ZH_AWAY.compiled.match(found["x"])


CHINESE: Final = (
    rule(
        Kind.PROFILE,
        f"(?:我叫|我的名字(?:是|叫)|叫我|请叫我)(?P<x>{_HAN}{{1,12}})(?:吧|就好|就行)?",
        "name",
        "{who} is called {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.PROFILE,
        f"我(?:现在|目前)?(?:住在|定居在|生活在)(?P<x>{_HAN}{{2,14}})",
        "residence",
        "{who} lives in {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.PROFILE,
        f"我(?:们)?(?:刚刚|刚|最近|已经|上个月|去年|今年)?搬(?:到|去)了?(?P<x>{_HAN}{{2,12}}?)了?",
        "residence",
        "{who} lives in {x}",
        holds=lambda found: _zh_stands_alone(found) and not re.match("新|楼|隔壁", found["x"]),
    ),
    rule(
        Kind.PROFILE,
        f"(?:我来自|我出生在|我出生于|我老家在|我从小在)(?P<x>{_HAN}{{2,12}}?)(?:长大)?",
        "origin",
        "{who} comes from {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.PROFILE,
        f"我是(?:一名|一位|一个|个|名)?(?P<x>{_HAN}{{0,6}}(?:{_ZH_JOBS}))",
        "occupation",
        "{who} works as {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.PROFILE,
        f"我(?:现在|目前)?在(?P<x>{_HAN}{{2,16}})(?:工作|上班|任职)",
        "employer",
        "{who} works at {x}",
        holds=lambda found: _zh_stands_alone(found) and not re.search("家$|努力|认真", found["x"]),
    ),
    rule(Kind.PROFILE, r"我(?:今年|现在)?(?P<x>\d{1,3})岁(?:了)?", "age", "{who} is {x} years old", holds=is_age),
    rule(
        Kind.PROFILE,
        r"我的?生日(?:是|在)(?P<x>(?:\d{4}年)?\d{1,2}月\d{1,2}[日号])",
        "birthday",
        "{who}'s birthday is {x}",
    ),
    rule(Kind.PROFILE, "我(?:已经)?(?P<x>结婚|离婚|订婚)了", "marital status", "{who}: {x}"),
    rule(Kind.PROFILE, r"我(?:会说|会讲)(?P<x>[\u3400-\u9fff、和]{1,20}[语话文])", "languages", "{who} speaks {x}"),
    rule(
        Kind.CONSTRAINT,
        f"我对(?P<x>{_HAN}{{1,12}})(?:严重)?过敏",
        "allergy: {x}",
        "{who} is allergic to {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.CONSTRAINT,
        "我(?:一直|现在)?(?:是)?(?P<x>吃素|素食者|素食主义者|吃纯素)(?:的)?",
        "diet: {x}",
        "{who}: {x}",
    ),
    rule(
        Kind.CONSTRAINT,
        f"我(?:从来|从)?(?:不吃|不能吃|不喝|不能喝)(?P<x>{_HAN}{{1,6}})",
        "diet: {x}",
        "{who} does not take {x}",
        holds=lambda found: _zh_stands_alone(found) and not re.match("了|完|饱|早|午|晚", found["x"]),
    ),
    rule(Kind.CONSTRAINT, f"我(?:有|患有|得了)(?P<x>{_ZH_ILLS})", "health: {x}", "{who} has {x}"),
    rule(Kind.CONSTRAINT, "我(?:怕|害怕|恐)(?P<x>高|蛇|狗|黑|坐飞机|打针|蜘蛛)", "fear: {x}", "{who} is afraid of {x}"),
    rule(
        Kind.PREFERENCE,
        f"我最(?:喜欢|爱)的(?P<y>{_HAN}{{1,8}}?)是(?P<x>{_HAN}{{1,16}})",
        "favourite {y}",
        "{who}'s favourite {y} is {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.PREFERENCE,
        f"我(?:很|最|非常|特别|一直|真的|也)?(?:喜欢|喜爱|热爱|爱吃|爱喝)(?P<x>{_HAN}{{1,14}})",
        "taste: {x}",
        "{who} likes {x}",
        holds=lambda found: _zh_stands_alone(found) and not found["x"].startswith(("的", "上了")),
    ),
    rule(
        Kind.PREFERENCE,
        f"我(?:很|最|非常|特别|一直|真的|也)?(?:讨厌|不喜欢|不爱吃|不爱喝)(?P<x>{_HAN}{{1,14}})",
        "taste: {x}",
        "{who} dislikes {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.RELATIONSHIP,
        f"我(?:的|家的|家)?(?P<y>{_ZH_KIN})(?:的名字)?(?:叫|名叫|是叫)(?P<x>{_HAN}{{1,10}})",
        "{y}: {x}",
        "{who}'s {y} is called {x}",
        holds=_zh_stands_alone,
    ),
    rule(
        Kind.RELATIONSHIP,
        "我有(?P<x>[一两二三四五]个(?:孩子|儿子|女儿|哥哥|弟弟|姐姐|妹妹)|[一两二三]只(?:猫|狗))",
        "family: {x}",
        "{who} has {x}",
    ),
    rule(
        Kind.PREFERENCE,
        "(?:请|以后请|以后)(?P<y>总是|一直|永远不要|不要再|都)?用(?P<x>(?:中文|英文|英语|繁体中文|简体中文|日语|法语)(?:回答|回复)(?:我)?)",
        "wish: {x}",
        "{who} wishes: {x}",
    ),
    rule(
        Kind.PREFERENCE,
        f"我(?:已经)?不再喜欢(?P<x>{_HAN}{{1,14}}?)了?",
        "taste: {x}",
        "",
        operation=FactOperation.DELETE,
    ),
)
