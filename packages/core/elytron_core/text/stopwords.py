"""Words that carry no content of their own, and words that questions are made with.

Stop words, question words included, are what the analyser drops before stemming; the others are stems that it keeps.
"""

import re

_ENGLISH = """
a about after all also am an and any are as at be because been before being between both but by can could d did do does
doing don during each few for from had has have having he her hers him his how i if in into is it its itself just ll m
me more most my myself no nor not now o of on only or other our ours over own re s same she should so some such t than
that the their theirs them then there these they this those to too us ve was we were what when where which while who
whom whose why will with would y you your yours
"""
_ASKING = """
amount ask big certain chat convers current date day decid describ differ discuss earlier exampl far feel get go
happen kind know long make mani mention name number often old part person place previous purpos reason recal recent
rememb remind say share someon sort specif take talk tell thing think time type use various way
"""
_FORMS = "end everyth gener kind list moment order outlin overview recap sequenc step summari summaris term timelin"
_CHINESE = "什么 怎么 怎样 哪里 哪个 哪些 为什 多少 是谁 是否 是不 不是 我的 你的 他的 她的 了吗 的吗 是什 谁是"

ENGLISH = frozenset(_ENGLISH.split())
CHINESE = frozenset(_CHINESE.split())
"""Pairs of characters that ask or join; only queries leave them out, for a pair may straddle two real words."""
CHINESE_ASKING = re.compile(
    "什么时候|为什么|[叫是]?什么|怎么样?|怎样|在?哪[里儿]|哪[个些]|多少|[是叫]谁|谁是?|是否|是不是|[我你他她]的|[吗呢吧]$"
)
"""Cuts in a Chinese question, so that no pair of characters joins the matter asked about and a word that asks."""
ASKING = frozenset(_ASKING.split())
"""Stems with which a query says what kind of thing it wants ("the name of", "how long", "mention"), and little else."""
FORMS = frozenset(_FORMS.split())
"""Stems with which it says in which form it wants the answer ("summarise", "in order", "at the moment")."""
