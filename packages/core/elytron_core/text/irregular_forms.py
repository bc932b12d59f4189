"""English verbs and plurals that change inside, which no stemmer joins, each with the word that it is a form of."""

_VERBS = """
awake awoke awoken|bear bore borne|beat beaten|become became|begin began begun|bend bent|bind bound|bite bit bitten
bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|buy bought|catch caught
choose chose chosen|come came|creep crept|deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten
give gave given|go went gone|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept|kneel knelt
know knew known|lay laid|lead led|lean leant|learn learnt|leave left|lend lent|lie lay lain|light lit|lose lost
make made|mean meant|meet met|mistake mistook mistaken|pay paid|ride rode ridden|ring rang rung|rise rose risen
run ran|say said|see saw seen|seek sought|sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot
show shown|shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken
spend spent|spill spilt|spin spun|spring sprang sprung|stand stood|steal stole stolen|stick stuck|sting stung
strike struck|swear swore sworn|sweep swept|swim swam swum|swing swung|take took taken|teach taught|tear tore torn
tell told|think thought|throw threw thrown|understand understood|wake woke woken|wear wore worn|weave wove woven
weep wept|win won|wind wound|write wrote written
"""
_PLURALS = """
child children|foot feet|goose geese|knife knives|leaf leaves|life lives|loaf loaves|man men|mouse mice|person people
shelf shelves|thief thieves|tooth teeth|wife wives|wolf wolves|woman women
"""
_TWO_WORDS = frozenset(("bore", "bound", "found", "lay", "leaves", "left", "lives", "rose", "saw", "wound"))
"""Forms that are words of their own just as often, and so are kept as they are."""


def _forms() -> dict[str, str]:
    groups = (words.split() for words in (_VERBS + "|" + _PLURALS).replace("\n", "|").split("|"))
    return {form: words[0] for words in groups for form in words[1:] if form not in _TWO_WORDS}


BASES = _forms()
"""From a form to the word whose stem it is given."""
