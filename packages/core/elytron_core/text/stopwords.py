"""Words that carry no content of their own, question words included, as the analyser drops them before stemming."""

_ENGLISH = """
a about after all also am an and any are as at be because been before being between both but by can could d did do does
doing don during each few for from had has have having he her hers him his how i if in into is it its itself just ll m
me more most my myself no nor not now o of on only or other our ours over own re s same she should so some such t than
that the their theirs them then there these they this those to too us ve was we were what when where which while who
whom whose why will with would y you your yours
"""
_CHINESE = "什么 怎么 怎样 哪里 哪个 哪些 为什 多少 是谁 是否 是不 不是 我的 你的 他的 她的 了吗 的吗 是什 谁是"

ENGLISH = frozenset(_ENGLISH.split())
CHINESE = frozenset(_CHINESE.split())
"""Pairs of characters that ask or join; only queries leave them out, for a pair may straddle two real words."""
