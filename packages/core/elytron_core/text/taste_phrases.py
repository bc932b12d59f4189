"""How people say what holds of themselves and those close to them: tastes, habits, what they cannot have."""

from typing import Final

from elytron_core.text.phrase_parts import PAST, Way

_ILLS: Final = (
    r"(?:\w+ ){0,2}?(?:allergy|intolerance|asthma|diabetes|co?eliac|epilepsy|migraines|dyslexia|adhd|arthritis|eczema"
    r"|ibs|vertigo|hay ?fever|blood pressure)\b"
)
_DIETS: Final = (
    r"(?:vegan|vegetarian|veggie|pescatarian|co?eliac|kosher|halal|diabetic|asthmatic|dyslexic|teetotal|sober|muslim"
    r"|jewish|hindu|buddhist|lactose|gluten|allergic|intolerant)\b"
)
_NOT_ONE: Final = (
    r"\b(?! (?:it|that|this|him|her|them|you|the|an?|any|anything|all|to|so|my|your|much|time|one|or|here|there|up"
    r"|around)\b)"
)
"""Who speaks of this one or that says nothing of the kind."""
_CANNOT: Final = (
    r"(?:don'?t|do not|doesn'?t|can'?t|cannot|won'?t|never) (?:really |ever |even )?(?:(?:eats?|drinks?|touch|have"
    r"|stand|bear|stomach|tolerate|digest|handle|take|do|manage|cope with|deal with|wear|drive|fly|swim|climb|smoke"
    r"|watch|read"
    r"|use|like|enjoy|trust|own|cook|celebrate|care for|live without)" + _NOT_ONE + ")"
)

_PASSING: Final = (
    "am|have|had|need|want|think|know|hope|guess|wonder|see|understand|mean|remember|agree|suppose|believe|promise"
    "|thank|appreciate|will|would|could|should|might|may|must|can|shall|do|did|don'?t|can'?t|cannot|won'?t|couldn'?t"
    "|didn'?t|wasn'?t|just|also|still|really|only|say|bet|swear|doubt|assume|expect|plan|leave|arrive|meet|come|start"
    "|get|look|seem|ask|owe|wish|apologi[sz]e|suggest|recommend|never|always|usually|like|love|and|or|as|too|who|that"
    "|miss|feel|forget|call|haven'?t|already|now|then|finally|almost|even|once|both|all|two|want|gotta|gonna|wanna"
    "|better|recently|currently|ever|possibly|probably|maybe|actually|literally|sort|kind|keep|consider|imagine|admit"
    "|fear|notice|give|move|live"
)
"""What one says of now rather than of always."""

BY_OPENING: Final = (
    # What one keeps to or from: "I steer clear of", "I've never cared for".
    Way(
        "i we",
        r"(?:can only (?:ever )?[a-z]|(?:steer clear of|stay away from|keep away from|go by|break out in|learn by)\b)",
    ),
    Way(
        "i've we've ive i we",
        r"(?:have )?(?:been off\b|never (?:been (?:one|an?|much|good|able|keen|into)\b|liked|cared|enjoyed|trusted))",
    ),
    # What one is, or is without, with, before, and so on: "I'm a nurse", "I'm hopeless before coffee".
    Way(
        "i'm im we're",
        r"(?:an? (?!bit|little|lot|few|while|\w+ (?:late|early|behind)\b)[a-z]|(?:hopeless|useless|grumpy|nervous"
        r"|uneasy|helpless|no good|miserable|uncomfortable|rubbish|awful) (?:before|without|in|with|on|around|at|when"
        r"|until)\b|off (?!to|on|work|today|home|for|now)[a-z])",
    ),
    # What happens to one when: "My throat closes up when I eat kiwi."
    Way(
        "my",
        r"\w+ \w+s?\b[^.!?]* (?:when|if|whenever) i (?!am|have|can|arrive|land|finish|get|come|return|know|hear|see"
        r"|leave"
        rf"|{PAST})[a-z]",
    ),
    Way("nothing no", rf"[\w ]+, (?:i|we) (?!{PAST}|(?:{_PASSING})\b)[a-z]+"),
    # What one likes or does, in the present: "I love cardamom", not "I love it"; "I usually walk", not "I always
    # wanted".
    Way(
        "i we",
        r"(?:(?:really|strongly|much|still|also|just|absolutely|simply|personally|do|both) )*(?:(?:prefer|love|enjoy"
        r"|hate|dislike|detest|loathe|despise|dread|adore|avoid|swear by|stick to|go for)\b(?! (?:it|that|this|those"
        r"|him|her|them|you|the idea|how|not to|to (?:say|think|see|hear|know|admit))\b)|(?:always|never"
        r"|only(?: ever)?|usually|generally|normally|mostly|typically|tend to|rarely|seldom|hardly ever"
        rf"|try to) (?!{PAST}|(?:just|one|two|a|the|need|know|think|meant|mind|wanted)\b|have (?:one|two|\d"
        rf"|[a-z]+ty\b|an?\b)|\d)[a-z])",
    ),
    # What one does not have or do: "we don't eat", "my son can't have", not "I don't have the key".
    Way("i we my our his her the", rf"(?:[a-z-]+ ){{0,2}}?{_CANNOT}"),
    Way(
        "i we",
        r"(?:don'?t|do not) (?:eat|drink|fly|drive|smoke|swim|cook|celebrate|answer|work|want (?!to|it|that|the"
        r"|a)[a-z])",
    ),
    # How one reads and works best, what one gets or has, what one gave up.
    Way(
        "i we i've we've ive",
        r"(?:(?:work|read|learn|think|sleep|feel|concentrate|focus|understand|cope|do) (?:best|better|worse|badly"
        r"|nights)\b|get (?:car|sea|air|motion )?-?(?:sick|dizzy|bored|migraines?|headaches?|anxious|hives|a rash"
        r"|heartburn|lost)\b"
        rf"|(?:fast|pray|print everything|keep kosher|keep halal|use a [a-z ]*(?:reader|chair|cane|aid))\b|(?:have"
        rf"|'?ve got|got|suffer from) (?:an? )?{_ILLS}|(?:have )?(?:been|gone|turned|went) (?:an? )?{_DIETS}"
        r"|(?:have )?(?:sworn off|gone off|cut out|(?:gave|given) up|quit|stopped) (?!waiting|trying|looking|my|the"
        r"|it|on|at|by|for|and|a\b|there|here|hope|work)[a-z]|would (?:rather|sooner|never)\b|wouldn'?t (?:be caught"
        r"|touch|dream of))",
    ),
    Way("i'd we'd", r"(?:(?:much |always |far )?(?:rather|sooner)|never|take [^.!?]+ over|go for [^.!?]+ over)\b"),
    # What one is: "I'm more of a dog person", "I'm terrified of heights", "I am coeliac".
    Way(
        "i'm im we're i we my our she he",
        r"(?:\w+ )??(?:am |are |is )?(?:(?:really|very|quite|also|still|totally|completely) )*(?:not (?:an?|into"
        r"|big on|keen|one for|fussed|comfortable|good with|much of)\b(?! (?:lot|bit)\b)|an? (?:sucker|stickler"
        r"|beginner|(?:huge|big|great) fan|(?:\w+ )?(?:person|learner|reader|sleeper|eater|lover|addict|nut|buff"
        r"|purist))\b|more of an?\b|big on\b|(?:mad|crazy) about\b|obsessed with|addicted to|partial to|into (?!the\b"
        r"|my\b|it\b)|happiest|(?:scared|afraid|terrified|sick|fond|tired) of (?!it|that|this|him|her)|(?:fine|ok"
        r"|okay|happy) with [^.!?]+ but not|(?:bad|terrible|hopeless) (?:with|at)|sensitive to"
        r"|on an? (?:\S+ )?(?:diet|connection|budget)"
        rf"|(?:colou?r|red.green)[ -]?blind|deaf|blind|hard of hearing|left-handed|(?:strictly |strict )?{_DIETS})",
    ),
    # "My stomach won't take it", "my doctor has put me on", "our house style", "my name is spelled".
    Way(
        "my our his her",
        r"(?:\w+ ){0,2}?(?:(?:stomach|skin|back|hip|knee|eyes|eyesight|sight|hearing|heart|shoulder|lungs|joints"
        r"|budget|english|memory|head|nerves|wrist)(?: for [^.!?]+)? (?:can'?t|cannot|won'?t|doesn'?t|isn'?t|aren'?t"
        r"|is (?:\w+ )?(?:basic|bad|weak|poor|sensitive|limited|never|rusty))|(?:preference|favou?rites?|rule is"
        r"|house style|policy|go-to|default)\b(?! was)|(?:doctor|dentist|physio|gp|dietician) (?:has "
        r"|have )?(?:put me on|took me off|says? no|banned)|hates? (?!it|that|this|him|her|me|you)|name is (?:spel\w+"
        r"|written|pronounced))",
    ),
    # "Rather a train than a plane."
    Way("rather", r"(?:an? |the )?[\w'-]+(?: \w+)? than (?!that|this|i\b|we\b|you\b|it\b)"),
)
"""What holds of somebody."""

BY_PHRASE: Final = (
    Way(
        "can't_stand cannot_stand cant_stand can't_bear cannot_bear cant_bear can't_abide",
        r"{}(?! (?:it|here|there|up|around|any)\b)",
    ),
    # What something does to one, in the present.
    Way(
        "annoy bother bore scare confuse stress irritate frighten terrify depress disgust overwhelm distract annoys"
        " bothers bores scares confuses stresses irritates frightens terrifies depresses disgusts overwhelms"
        " distracts suits",
        r"{} (?:me|us|my \w+)\b(?! that\b)",
    ),
    Way(
        "drive_me drives_me make_me makes_me give_me gives_me get_me gets_me keep_me keeps_me lose_me loses_me"
        " puts_me make_my makes_my turn_me turns_me",
        r"{}(?: \w+)? (?:nuts|mad|crazy|insane|up the wall|up\b|awake|swell|sick|ill|itch|sneeze|dizzy|cough|nervous"
        r"|anxious|tired|sleepy|bloated|queasy|every time|off\b|(?:a )?(?:headaches?|migraines?)|the creeps|hives"
        r"|heartburn)|{}[.!]*$",
    ),
    Way(
        "help_me helps_me help_us helps_us",
        r"{}(?: \w+)? ?(?:if|when|understand|follow|focus|read|learn|remember|most|best|a lot|[.!]*$)",
    ),
    Way(
        "for_me to_me with_me for_us",
        r"(?:\b(?:is|are|works?|best|better|easier|harder|difficult|important|out|off|enough|not|isn'?t|aren'?t|more"
        r"|than|tells?|no-go|nothing)|^no [^.!?]*|[.!?] no [^.!?]*) (?:\w+ )?{}\b",
    ),
    Way("on_my", r"(?:don'?t|doesn'?t|never) (?:work|show|fit|open|load|render) (?:\w+ )?{}"),
    # What a kind of thing does to one, or is: "crowded trains make me panic", "raisins in cakes are a crime".
    Way(
        "make_me makes_me make_my give_me gives_me kill_me hurt_my upset_my ruin_my",
        r"(?:^|[.!?;,] |and )(?!he|she|they|it|this|that|these|the|my|you|who|what|to|please|can"
        r"|could)[a-z'-]+(?: [a-z'-]+)?s (?:could |can |always |often )?{} [a-z]",
    ),
    Way(
        "crime torture poison nightmare heaven bliss weakness downfall deal-breaker turn-off pet_hate pet_peeve sin",
        r"\b(?:is|are)(?: \w+)? (?:an? |pure |absolute |my )+{}\b",
    ),
    # A weekday that is always so: "Tuesdays I look after my granddaughter".
    Way(
        "mondays tuesdays wednesdays thursdays fridays saturdays sundays",
        rf"{{}} (?:i|we) (?!{PAST})|keep (?:my )?{{}} free",
    ),
    Way(
        "gives_me puts_me knocks_me turns_me leaves_me wears_me put_me give_me knock_me",
        r"(?:^|[.!?;,] |and )(?!he|she|they|it|this|that|the|my|you|who|what|please|can|could"
        r"|to\b)[a-z'-]+(?: [a-z'-]+)? {} (?:to sleep|out|off|down|cold|the (?:shivers|creeps|chills|willies))\b",
    ),
    Way(
        "doctor's_orders blood_thinners on_insulin on_medication react_badly reacts_badly are_enemies isn't_something"
        " aren't_something",
        "{}",
    ),
    Way("deadly toxic poisonous fatal", r"(?:is|are) {} (?:for|to) (?:me|us|my|our|the)\b"),
    Way("household family", r"\bwe'?(?:re| are) an? [\w-]+ {}\b"),
    Way("limit maximum", r"\bmy {} is\b"),
    Way("beats beat", r"{} [^.!?]{2,30} for me\b"),
    Way(
        "the_older the_longer the_shorter the_simpler the_quieter the_spicier the_more the_less the_fewer",
        r"{}[^.!?]*, the (?:\w+er|more|less|better)\b",
    ),
    Way("wherever", r"{} (?:i|we) (?:go|am|are|stay|eat|travel|sleep)\b"),
    # "Milk and I don't get along."
    Way("get_along get_on mix", r"\band (?:i|me) (?:don'?t|do not|never) {}\b"),
    # Tastes in set phrases.
    Way("my_thing my_cup my_style my_taste my_scene my_jam our_thing our_style", r"(?:not|n'?t|is|are) (?:\w+ )?{}\b"),
    Way("fan_of", r"\b(?:not an?|no|never been a|a (?:big|huge|great)) (?:\w+ )?{}"),
    Way("keen_on", r"\bnot (?:\w+ )?{}"),
    Way("the_better", r"\bthe \w+er,? {}"),
    Way("over_a", r"{}n? [^.!?]* any ?(?:day|time)\b"),
    Way("rather_a", r"{}n? [^.!?,]* than\b"),
    Way(
        "is_out are_out",
        r"\b(?:sugar|sweets?|meat|fish|dairy|wheat|gluten|nuts?|caffeine|alcohol|eggs?|salt|pork"
        r"|[a-z]+days) {}\b(?! of)",
    ),
    Way(
        "my_favourite my_favorite my_preference my_colour my_color our_favourite our_favorite",
        r"{}\b(?! (?:was|were))",
    ),
    Way(
        "off_the_table off_limits no-go_for hard_pass nothing_beats enough_of_it can't_get_enough is_sacred"
        " are_sacred less_is_more any_day_of anything_but person_i",
        "{}",
    ),
    # What somebody cannot have.
    Way("allergic allergy allergies intolerant intolerance anaphylaxis", "{}"),
    Way(
        "vegan vegetarian veggie coeliac celiac kosher halal diabetic dyslexic pescatarian",
        r"\b(?:am|i'?m|is|are|we'?re|keeps?|eats?|gone|went|turned|been|have|has) (?:\w+ ){0,2}?{}",
    ),
    Way(
        "doesn't_eat doesnt_eat won't_eat won't_touch can't_have cant_have cannot_have doesn't_drink can't_eat"
        " cannot_eat cant_eat",
        r"{}" + _NOT_ONE,
    ),
)
"""What holds of somebody, by a phrase that says so wherever it stands."""
