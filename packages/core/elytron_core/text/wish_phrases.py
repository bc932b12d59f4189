"""How people say what answers are to be like from now on, and on which occasions."""

from typing import Final

from elytron_core.text.phrase_parts import PAST, Way

FORMS: Final = (
    r"(?:bullets?|bullet points?|(?:sub)?headings?|headlines?|tables?|lists?|paragraphs?|sentences?|footnotes?|jargon"
    r"|slang|emojis?|emoticons?|smileys|acronyms?|abbreviations?|links?|sources?|citations?|references|metric"
    r"|imperial|celsius|fahrenheit|kilomet\w+|km|miles|grams?|kilos?|mg|pounds|ounces|litres?|euros?|dollars?|francs"
    r"|currency|tax|vat|net|gross|(?:24|12|twenty-four|twelve)[- ]?hours?|iso|decimals?|spelling|plain|simpl[ey]\w*"
    r"|short\w*|brief\w*|concise|detail\w*|formal\w*|informal\w*|casual\w*|polite\w*|blunt\w*|straight|direct\w*"
    r"|friendl\w+|tone|greetings?|pleasantries|small talk|chit-?chat|disclaimers?|warnings?|apolog\w+|flattery"
    r"|compliments?|praise|exclamation \w+|caps|capitals|(?:lower|upper|sentence|title)[- ]?case|nicknames?|(?:first"
    r"|last) names?|surnames?|summar(?:y|ies)|recaps?|conclusions?|intros?|introductions?|totals?|reasoning|numbered"
    r"|steps|examples|comments|diagrams?|charts?|pictures?|images?|graphs?|bold|italics?|markdown|answers?|repl(?:y"
    r"|ies)|responses?|explanations?|adjectives|idioms|metaphors|hashtags|semicolons?|latin|english|british|american"
    r"|german|french|spanish|italian|portuguese|dutch|swedish|norwegian|danish|polish|russian|japanese|chinese"
    r"|turkish|arabic|hindi|greek|typescript|python|in full|inline|at the (?:top|end|bottom|start|beginning)|on top"
    r"|up front|in (?:words|digits)|at a time|first|last|included|excluded)\b"
)
"""What an answer may be like, or have in it."""
_WRITTEN: Final = (
    "letters emails e-mails reports titles headings invoices messages posts documents recipes captions lists dates"
    " times prices amounts sums costs numbers figures totals distances weights temperatures lengths sizes names"
    " measurements quantities percentages quotes sentences paragraphs words suggestions steps answers replies"
    " responses explanations summaries"
)
_SHOWN: Final = (
    r"(?:show|give|compare|write|explain|answer|reply|respond|talk|tell|suggest|recommend|propose|mention|list|quote"
    r"|cite|describe|discuss|present|summari[sz]e|translate|calculate|format|introduce|review|plan|draft|offer|refer"
    r"|make|pick|choose|book|find|help)\b"
)
BY_OPENING: Final = (
    # How answers are to be: a verb that sets it, and something that an answer may be like.
    Way(
        "use put keep write give show list state express quote print format include add mention cite have work phrase"
        " convert stick skip drop cut omit lose spare leave limit number spell sort separate mark name link used kept"
        " gave left using putting keeping leaving skipping dropping writing giving adding",
        r"(?!an? |this|that\b|these|those|him|her\b|it\b|[^.!?]{0,40}\b(?:same|again)\b)(?:[\w'-]+ (?!an? |two "
        r"|three |this\b|that\b|shopping)){0,7}?"
        rf"(?:{FORMS}|up to\b|head\b|the word\b)",
    ),
    Way("round", r"(?:everything|all|sums|prices|numbers|amounts|figures|up|down|off)\b"),
    Way("stop quit", r"(?!being|worrying|by|it)\w+ing\b"),
    Way(
        "always never",
        rf"(?!{PAST}|(?:mind|heard|know|the|an?|has|have|is|are|in|nice|good|great)\b)[a-z]{{2,}}",
    ),
    # What is not to be done, but for what is said in passing: "don't worry".
    Way(
        "don't dont avoid do",
        r"(?:not )?(?<!do )(?:ever )?(?!worry|mind|know|think|forget|wait|hesitate|bother|be (?:late|silly|sad|sorry"
        r"|afraid)|get me wrong|panic|rush|(?:go|you|let|miss|lose|move|look|want|need|have|feel|i|we|they|understand"
        r"|remember|see|believe|drive|leave|like)\b|(?:touch|do|say|open|tell|ask) (?:it|that|him|her|them"
        r"|the)\b)[a-z]{2,}",
    ),
    Way(
        "call",
        r"me (?!back|when|later|tomorrow|at|on|if|asap|in|once|after|before|tonight|today|any|please|as\b|crazy|first"
        r"|again|from|and|about|to)[a-z]",
    ),
    Way("address", r"me\b"),
    Way("treat refer talk speak", r"(?:to )?me (?:as|like|in|with|straight)\b"),
    Way(
        "answer reply respond write speak talk explain",
        r"(?:(?:to )?me |back |things |it )?(?:in (?!the|this|that|time|an? |two|my|our|your|his|her)[a-z]"
        r"|with(?:out)? (?!him|her|me|us|the|my)[a-z]|only|briefly|(?:as|like) (?:if|i|you|a)\b|step by step)",
    ),
    Way(
        "be act",
        r"(?:more |as |very |always |my )?(?:blunt|honest|direct|straight|brief|concise|critical|specific|precise"
        r"|gentle|patient|frank|harsh|strict|formal|casual|informal|like)\b",
    ),
    Way(
        "make be remember making",
        r"(?:sure )?(?:(?:that )?you |to )?(?:always )?(?:cite|mention|include|add|state|list|quote|explain|spell"
        r"|give|name|show|link"
        rf"|flag|warn|label|double-check|round) [^.!?]*\b(?:when|if|each|every|any|always|whenever|{FORMS})",
    ),
    Way(
        "ask check warn remind tell run",
        r"(?:it )?(?:with |by )?me (?:first|before (?:you|send|book|mak|chang)|straight|outright|if i'?m|whenever"
        r"|every time|each time)",
    ),
    Way(
        "start begin end finish open close sign lead",
        r"(?:off )?(?:with )?(?:each|every|your|all|answers|replies|e-?mails|messages|letters|the (?:answer"
        r"|conclusion|result|summary))\b",
    ),
    Way("just only", r"the (?:answer|code|result|facts|numbers?|gist|essentials)\b"),
    Way("assume", r"(?:that )?(?:i|we)\b"),
    Way("default stick", r"(?:to|with) (?!the plan|it\b|that\b|this\b|me\b)[a-z]"),
    # "I want prices with tax included", "I like my summaries with the conclusion on top", "I want you to challenge".
    Way(
        "i we",
        r"(?:want|expect|need|like|prefer|keep) (?!to\b|an?\b|you to\b|this\b|that\b|some\b|more\b|the (?:first"
        r"|last)\b)"
        rf"[^.!?]{{0,40}}?\b{FORMS}",
    ),
    Way(
        "i we",
        r"(?:(?:want|need|expect) you to (?:always|never|challenge|question|push|double-check|correct|act|treat"
        r"|assume|ask|warn|stick|be)\b|(?:need|use) (?:subtitles|captions|large print|quiet|silence)\b)",
    ),
    Way(
        "challenge double-check question",
        r"(?:me\b|my \w+s\b|the \w+s every)",
    ),
    # "No Comic Sans, ever", "so no early calls", "aisle seats only".
    Way("no nothing", r"(?:[\w-]+ ){0,3}[\w-]+,? (?:ever|whatsoever|at all|under any circumstances)\b"),
    Way(
        "so",
        r"(?:please )?(?:no|nothing|not|never|keep|give me|only|avoid|leave|skip|stick) (?!need|idea|way|one|far|long"
        r"|sure)[a-z]",
    ),
    Way("leave", r"[^.!?]{2,30} out(?:,| of (?:it|this|every\w*|the (?:answers?|list)))?\W*$"),
    Way("remember", r"(?:,|that )\s?(?:i|we|my|our|the kids|you)\b"),
    Way("speak talk write answer explain reply", r"(?:more |very )?[a-z]+ly\b"),
    Way(
        "whatever whichever anything everything",
        rf"(?:you {_SHOWN}|with|about|on|concerning) [^.!?]{{0,40}}[:,] (?!(?:i|we|he|she|it) )[a-z]",
    ),
    # In which manner: "tell me the odds as a fraction", "say sorry less", "you may swear with me".
    Way(
        "tell give show say mark explain list",
        r"(?!him|her|them)[^.!?]{3,40} (?:as an?|like an?|with an? \w+|less|more slowly)\b(?! (?:gift|present"
        r"|surprise))",
    ),
    Way("you", r"(?:may|needn't|don't (?:have|need) to) (?!come|go|take|have)[^.!?]{3,30} (?:with|to|at|for) me\W*$"),
    Way("no", r"[a-z-]+s (?:about|or)\b"),
    Way("hold", r"the (?!line|door|date|phone|fort)[a-z]"),
    # Without a verb: what there is to be none of, how much at most, in which form things are to be.
    Way(
        "no nothing not less fewer more zero",
        r"(?!(?:idea|luck|worries|problem|news|thanks|way|one|doubt|rush|hurry|chance|longer|matter|time)\b)"
        rf"(?:[^.!?,;]*\b(?:for (?:me|us)|please|pls|plz|in (?:my|our|this) \w+)\W*$|(?:\w+ ){{0,2}}{FORMS}"
        rf"|need (?:to|for you to)"
        r" (?:explain|apologi|repeat|add|mention|thank|greet|introduce|be |sugar|soften|ask|remind|spell)"
        r"|an? (?:\w+ )?(?:fan|person)|more than \w+ (?:\w+ )?(?:options|choices|suggestions|sentences|words|lines"
        r"|ideas|paragraphs|items))",
    ),
    Way(
        _WRITTEN,
        rf"(?:to (?:\w+ )?\w+ |for (?:the )?\w+ |of \w+ )?(?:: ?(?!\d)[a-z]|(?:under|below|up to) [\w-]+ (?:words"
        rf"|lines|pages)|should|must|need to|have to|ought|to be\b|go in|first\b|only\b|(?:in|as|with|without|at"
        rf"|under|per|stay|are)\b (?:\w+ ){{0,3}}?{FORMS})",
    ),
    Way(
        "every all any each anything everything",
        r"[^.!?]{0,60}?\b(?:should|must|needs? (?!to know|help|you|from)|has to|have to|goes? in|ought to)\b",
    ),
    Way(
        "metric celsius imperial kilometres euros",
        r"(?:units?|only|please|always)?,? ?(?:please|pls|only|always|\W*$)",
    ),
    Way(
        "one two three four five a",
        r"(?:\w+ )?(?:options?|suggestions?|sentences?|words|lines|choices?|paragraphs?|items?|ideas?"
        r"|tips?)(?: or \w+)? ?(?:at most|at a time|max\b|maximum|tops|or less|or fewer|(?:is|are) (?:enough|plenty))",
    ),
)
"""What is wished of answers."""

BY_PHRASE: Final = (
    # That it is to be known, or lasts.
    Way("keep_in_mind bear_in_mind for_the_record just_so_you_know you_should_know be_aware_that please_note", "{}"),
    Way(
        "belongs_at belong_at belongs_on goes_at go_at comes_at come_at",
        r"{} the (?:top|bottom|end|start|front|beginning)\b",
    ),
    Way(
        "from_now_on from_here_on from_now_onwards from_today_on from_this_point in_future in_the_future,"
        " for_the_future for_future going_forward by_default default_to as_a_rule as_a_general_rule unless_i_say"
        " unless_i_ask unless_i_tell",
        "{}",
    ),
    Way("every_time each_time any_time", rf"\b{{}} (?:i|you|we) (?!{PAST})[a-z]"),
    Way("every_time each_time", r"\b(?:add|include|ask|check|double-check|give|tell|use|say)\b[^.!?]* {}[.!]*$"),
    Way(
        "whenever",
        r"{} (?!you have|you can|you like|you want|you're|possible|convenient|it suits|he\b|she\b|they\b|it\b"
        r"|[^.!?,]* (?:was|were)\b)",
    ),
    # "We always say", "window seat, always", "please always".
    Way("always never", rf"(?:we|please|pls|you) {{}} (?!{PAST})[a-z]|, {{}}[.!]*$"),
    Way(
        "would_like_it would_love_it would_appreciate_it would_prefer_it would_be i'd_appreciate i'd_love_it"
        " i'd_like_it it'd_be",
        r"{}(?: it)?(?: \w+)? if\b",
    ),
    Way("i'd_like_you i'd_prefer_you", r"{} to (?:always|never|answer|use|keep|stop|write|be|give|include|explain)\b"),
    Way("rather_you", r"{}\b"),
    Way(
        "your_answers your_answer your_replies your_responses your_explanations each_answer every_answer each_reply"
        " every_reply every_response each_response",
        r"\b(?:keep|make|end|start|begin|put|finish|in|at the end of|to|like|want|prefer|of|with) (?:all )?{}\b",
    ),
    Way(
        "answers_should replies_should responses_should explanations_should answers_must answers_to_be replies_to_be"
        " explanations_to_be",
        "{}",
    ),
    Way("what_works what_helps what_i_want what_i_need what_i_don't what_i_prefer", r"{} (?:\w+ ){0,4}is an? "),
)
"""What is wished, by a phrase that says so wherever it stands."""

OCCASIONS: Final = (
    # That the other side asks or speaks of something, or that answers are of some kind.
    Way(
        "when_i whenever_i if_i once_i time_i anytime_i case_i soon_as_i when_we whenever_we if_we time_we",
        r"{} (?:ever |do |next |happen to )?(?:ask|mention|bring up|talk|speak|say|want to know|start|inquire|enquire"
        r"|query|look for|write about|discuss|come to you|request|wonder|search|(?:am|'?m) (?:asking|talking"
        r"|looking for|writing))\b",
    ),
    Way(
        "when_i'm if_i'm whenever_i'm when_we're if_we're whenever_we're",
        r"{} (?:asking|talking|speaking|discussing|on about|looking for)\b",
    ),
    Way("when_you whenever_you if_you time_you", rf"{{}} {_SHOWN}"),
    Way("when_you're if_you're", r"{} (?!ready|done|free|home|back|here|there)[a-z]+ing\b"),
    Way(
        "somebody someone anybody anyone customers",
        r"(?:if|when|whenever) {} (?:asks?|wants?|mentions?|writes?|calls?)\b",
    ),
    Way(
        "when_it_comes_to if_it's_about when_it's_about if_it_is_about questions_about anything_about"
        " everything_about anything_to_do_with",
        "{}",
    ),
    Way(
        "is_about is_the_topic are_the_topic is_the_subject are_the_subject",
        r"\b(?:if|when|whenever) [^.!?,]{1,40} {}\b",
    ),
    Way("comes_up come_up", r"(?:if|when|whenever|time) [^.!?,]* {}"),
    Way("is_concerned are_concerned", r"\bas far as [^.!?,]* {}"),
)
"""On which occasions something is wished."""
OCCASIONS_BY_OPENING: Final = (
    # Whatever the occasion, what is wished then is of answers: "if it's past ten, keep it short".
    Way(
        "when whenever if",
        r"(?![^,]*\b(?:done|ready|home|there|back|finished|free|land|arrive|leave|see"
        r"|can)\b)[^.!?,:]{3,50}[,:] (?:please )?(?:use|list|name|quote|cite|mention|spell|keep (?:it|them"
        r"|answers) (?:short|brief|simple)|talk|speak|say so|admit|tell me|remind me|warn me|ask me|mark|avoid|skip"
        r"|stick to|don'?t|never|always|nothing|only|i want|i'd like)\b",
    ),
    Way(
        "with for on in",
        r"(?!(?:this|that|a|an|now|my way)\b)[a-z'-]+(?: [a-z'-]+){0,2}(?:[:,]? (?:i'd like|i (?:want|prefer|need)"
        r"|we (?:don't|never|always|only) (?!found|had|saw)|please)|[:,] (?:nothing|use|sign|keep|no|never|always"
        r"|only))\b",
    ),
    Way("on for about with", r"(?:anything|everything|all things|questions|matters) (?:\w+ )?\w+"),
    Way(
        "about regarding concerning for with",
        r"(?!your\b|the\b|last\b|that\b|this\b|any luck|a\b|me\b|us\b|now\b|my\b)[\w-]+s?(?=[:,] (?:please|use|give"
        r"|keep|put|show|remember|always|never|only|no|don't|[\w ]+ (?:for|in|at|are|is)\b))",
    ),
)
"""Of what, before what is wished of it."""

LEADS: Final = (
    r"please|pls|plz|kindly|and|but|so|also|ok|okay|oh|btw|fyi|thx|thanks|just|then|still|let'?s|again|always|maybe"
    r"|by the way|from now on|in future|for the future|as (?:i|we) said|(?:could|can|would|will) you|you (?:can"
    r"|should|must|may)|i(?:'d| would) (?:like|love|prefer|want) you to|i (?:want|need|expect|prefer) you to"
    r"|would you mind|(?:i'd|i would) (?:appreciate|love|like|prefer)(?: it)? if you(?:'d| could| would)?|(?:it would"
    r"|it'd|would) be \w+ if you(?:'d| could| would)?"
)
"""What may stand before what a clause says."""
ONCE: Final = (
    r"\b(?:today|tonight|tomorrow|yesterday|(?:right|for|just) now|now (?:please )?(?:give|make|show|write|put|in)\b"
    r"|right away|at the moment|here (?:is|are)|for once|just this|this (?:time|once|one|week|weekend|month|morning"
    r"|afternoon|evening|year|letter|text|message|mail|email|draft|page|paragraph|sentence|list|table|trip|meeting"
    r"|question|recipe|summer|winter|spring|autumn)|these two|last (?:night|week|month|year|summer|winter)|(?:on|by"
    r"|until|till|before|for|next|last|this) (?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
)
"""What is wished for once, or told of one time."""
