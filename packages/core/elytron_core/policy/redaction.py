"""Redaction of credentials and payment numbers before anything is stored.

Patterns match by form, so a secret in a form that no service issues is not found, and a UUID, hash, date or id is not a
secret by itself. Every pattern runs in time linear in the text: what can fail is bounded, and what is unbounded cannot
be entered twice.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple

from elytron_core.clock import Instant
from elytron_core.ids import FactId
from elytron_core.model import Value, VouchedMaker
from elytron_core.planes import facts, records, skills
from elytron_core.policy.credentials import CREDENTIAL_FORMATS, WORDS_KIND
from elytron_core.text.recovery_words import may_hold_words, recovery_spans
from elytron_core.text.similarity import visible_text

_HEX: Final = "[0-9a-f]"
_WORD: Final = "[A-Za-z0-9]"
_URL: Final = "[A-Za-z0-9_-]"
_BASE: Final = "[A-Za-z0-9+/]"

BEGINNING: Final = MappingProxyType(
    {
        # Models and search.
        "gsk_": rf"gsk_{_WORD}{{40,}}+",
        "xai-": rf"xai-{_WORD}{{60,}}+",
        "pplx-": rf"pplx-{_WORD}{{40,}}+",
        "r8_": rf"r8_{_WORD}{{30,}}+",
        "nvapi-": rf"nvapi-{_URL}{{50,}}+",
        "tvly-": r"tvly-(?=[A-Za-z-]{0,30}[0-9])[A-Za-z0-9-]{20,}+",
        "pcsk_": r"pcsk_[A-Za-z0-9_]{40,}+",
        "lsv2_": rf"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}",
        "sk_": rf"sk_{_HEX}{{48}}(?!{_WORD})",
        "jina_": rf"jina_{_HEX}{{32}}{_URL}{{20,}}+",
        "fc-": rf"fc-{_HEX}{{32}}(?!{_WORD})",
        "apify_api_": rf"apify_api_{_WORD}{{36}}",
        "absk": rf"ABSK{_BASE}{{100,}}+={{0,2}}",
        # Google, Azure, hosting, data.
        "gocspx-": rf"GOCSPX-{_URL}{{28}}",
        "ya29.": rf"ya29\.{_URL}{{30,}}+",
        "1//0": rf"1//0{_URL}{{40,}}+",
        "dop_v1_": rf"dop_v1_{_HEX}{{64}}",
        "doo_v1_": rf"doo_v1_{_HEX}{{64}}",
        "dapi": rf"dapi{_HEX}{{32}}(?:-[0-9])?(?!{_WORD})",
        "hvs.": rf"hvs\.{_URL}{{24,}}+",
        "hvb.": rf"hvb\.{_URL}{{24,}}+",
        "pscale_": r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9._=-]{32,}+",
        "sbp_": rf"sbp_{_HEX}{{40}}",
        "sb_secret_": rf"sb_secret_{_URL}{{30,}}+",
        "nfp_": rf"nfp_{_WORD}{{36}}",
        "hrku-": rf"HRKU-{_URL}{{36,}}+",
        "fo1_": rf"fo1_{_URL}{{43}}",
        "flyv1 fm": r"FlyV1 fm[12]_[A-Za-z0-9+/=_-]{100,}+(?:,fm[12]_[A-Za-z0-9+/=_-]{40,}+)*+",
        "rnd_": rf"rnd_(?=[A-Za-z]{{0,28}}[0-9]){_WORD}{{28,}}+",
        "tskey-": rf"tskey-[a-z]{{2,12}}-{_WORD}{{6,20}}-{_WORD}{{20,}}+",
        "age-secret-key-1": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
        # Code, packages, work.
        "gldt-": rf"gldt-{_URL}{{20,}}+",
        "glrt-": rf"glrt-{_URL}{{20,}}+",
        "glptt-": rf"glptt-{_HEX}{{40}}",
        "glcbt-": rf"glcbt-{_URL}{{20,}}+",
        "gloas-": rf"gloas-{_HEX}{{64}}",
        "atatt3": r"ATATT3[A-Za-z0-9_=-]{60,}+",
        "atctt3": r"ATCTT3[A-Za-z0-9_=-]{60,}+",
        "dckr_pat_": rf"dckr_pat_{_URL}{{27,}}+",
        "dckr_oat_": rf"dckr_oat_{_URL}{{27,}}+",
        "rubygems_": rf"rubygems_{_HEX}{{48}}",
        "ccipat_": rf"CCIPAT_{_WORD}{{22}}_{_HEX}{{40}}",
        "pul-": rf"pul-{_HEX}{{40}}",
        "dp.pt.": rf"dp\.pt\.{_WORD}{{40,}}+",
        "dp.st.": r"dp\.st\.[A-Za-z0-9._-]{40,}+",
        "lin_api_": rf"lin_api_{_WORD}{{40}}",
        "ntn_": rf"ntn_[0-9]{{11}}{_WORD}{{35}}",
        "secret_": rf"secret_{_WORD}{{43}}(?!{_WORD})",
        "figd_": rf"figd_{_URL}{{40,}}+",
        "pmak-": rf"PMAK-{_HEX}{{24}}-{_HEX}{{34}}",
        "cfpat-": rf"CFPAT-{_URL}{{43}}",
        # Monitoring.
        "glsa_": rf"glsa_{_WORD}{{32}}_{_HEX}{{8}}",
        "glc_": rf"glc_eyJ{_BASE}{{40,}}+={{0,2}}",
        "sntrys_": r"sntrys_[A-Za-z0-9+/_=-]{50,}+",
        "sntryu_": rf"sntryu_{_HEX}{{64}}",
        "nrak-": r"NRAK-[A-Z0-9]{27}",
        "phx_": rf"phx_{_WORD}{{40,}}+",
        # Payment, shops, messaging.
        "whsec_": rf"whsec_{_BASE}{{32,}}+={{0,2}}",
        "shpat_": rf"shpat_{_HEX}{{32}}",
        "shpss_": rf"shpss_{_HEX}{{32}}",
        "shpca_": rf"shpca_{_HEX}{{32}}",
        "sq0": rf"sq0(?:atp|csp)-{_URL}{{22,}}+",
        "sg.": rf"SG\.{_URL}{{20,24}}\.{_URL}{{39,50}}",
        "re_": rf"re_(?=[A-Za-z]{{0,8}}[0-9]){_WORD}{{8}}_(?=[A-Za-z]{{0,24}}[0-9]){_WORD}{{24}}(?!{_WORD})",
        "key-": rf"key-{_HEX}{{32}}(?!{_WORD})",
        "xapp-": rf"xapp-[0-9]-[A-Z0-9]{{8,14}}-[0-9]{{10,16}}-{_HEX}{{40,}}+",
    }
)
"""Formats that begin with a characteristic prefix."""

WITHIN: Final = MappingProxyType(
    {
        ".atlasv1.": rf"(?<!{_WORD})({_WORD}{{14}}\.atlasv1\.{_URL}{{60,}}+)",
        ":aa": rf"(?<![A-Za-z0-9])([0-9]{{8,10}}:AA{_URL}{{33}})(?!{_URL})",
        "hooks.slack.com/": r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,}+)",
        "/api/webhooks/": rf"discord(?:app)?\.com/api/webhooks/[0-9]{{15,20}}/({_URL}{{60,}}+)",
        "accountkey=": rf"(?i:AccountKey=)({_BASE}{{86}}==)",
        "sharedaccesskey=": rf"(?i:SharedAccessKey=)({_BASE}{{40,}}+=)",
        "sig=": r"[?&]sig=([A-Za-z0-9%+/]{40,120}={0,2})(?![A-Za-z0-9%+/])",
    }
)
"""Formats within addresses and settings; the first group is the secret."""


_IBAN_CHARS: Final = {
    15: "NO",
    16: "BE",
    18: "DK FI FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH CR HR LI LV",
    22: "BG BH DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
IBAN_CHARS_BY_COUNTRY: Final = {
    country: size for size, countries in _IBAN_CHARS.items() for country in countries.split()
}

CARD_PREFIXES: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[68]\d)\d{11}"  # Diners
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}",  # UnionPay
    re.ASCII,
)
"""Formats of issued card numbers; together with the check digit they exclude ordinary numbers."""


class ScrubbedText(Value):
    """A text without the secrets in it, and how many of each kind were removed."""

    text: str
    counts: dict[str, int] = {}


_SCRUBBED: Final = VouchedMaker(ScrubbedText, "text", "counts")
_Starts = Callable[[str], list[int]]


class _SecretRule(NamedTuple):
    """A kind of secret and its format; each text that has one contains one of `needs` in lower case.

    `group` is blacked out if `holds` is true of it. `starts` gives the places in a text of small letters at which the
    form can begin; None is any place.
    """

    kind: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0
    holds: Callable[[str], bool] = bool
    starts: _Starts | None = None


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    # One number in ten has a valid check digit by chance, so the issuer's format counts too.
    if not CARD_PREFIXES.fullmatch(digits):
        return False
    weighted_digits = [int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in weighted_digits) % 10 == 0


def _is_iban(text: str) -> bool:
    compact_text = text.replace(" ", "")
    return int("".join(str(int(char, 36)) for char in compact_text[4:] + compact_text[:4])) % 97 == 1


def _is_mixed(text: str) -> bool:
    return any(char.isdigit() for char in text) and any(char.isalpha() for char in text)


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


_START = r"(?<![A-Za-z0-9_])"
# A mark of an earlier pass is no secret, and neither is a template's placeholder.
_VALUE_START = r"(?!\[redacted:|\$\{|\{\{|<[a-z]|\*{3})"
_SEPARATOR = r"\\?[\"']?[ \t]{0,4}(?:=>|:=|[:=：])[ \t]{0,4}"
_QUOTED = r"\\?[\"']" + _VALUE_START + r"([^\"'\n\\]{4,}+)\\?[\"']"
_BARE = r"(?:[^\s\"'<>,;&\\]|,(?=\S))"
_ALGORITHM = r"(?i:(?:sha|md|argon|pbkdf|base|oauth|utf|id|field|input|v)-?\d|[bs]crypt)"
_NAMES = (
    r"(?i:pass(?:word|wd|phrase)|api[ _-]?key|(?:access|auth|refresh|secret|private|session)[ _-]?(?:token|key)"
    r"|client[ _-]?secret|access[ _-]?key[ _-]?id|secret[ _-]?access[ _-]?key|密码|密碼|口令|パスワード)"
)
_NAME_PARTS = ("pass", "key", "token", "secret", "密", "口令", "パス")
_NAME_HEADS = ("passw", "passphrase", "pwd", "密", "口令", "パス")
_NAME_TAILS = ("key", "token", "secret")
_NAME_BEFORE = ("api", "access", "auth", "refresh", "secret", "private", "session", "client")


def _part_places(lowered_text: str, part: str) -> list[int]:
    """Return the positions of `part` in a text."""
    positions: list[int] = []
    position = lowered_text.find(part)
    while position >= 0:
        positions.append(position)
        position = lowered_text.find(part, position + 1)
    return positions


def _token_places(lowered_text: str) -> list[int]:
    return sorted(position for part in ("secret", "token") for position in _part_places(lowered_text, part))


def _name_places(lowered_text: str) -> list[int]:
    """Return where one of `_NAMES` or "pwd" may begin; trying every character takes a hundred times longer."""
    positions = {
        position for head in _NAME_HEADS if head in lowered_text for position in _part_places(lowered_text, head)
    }
    for tail in _NAME_TAILS:
        for position in _part_places(lowered_text, tail) if tail in lowered_text else ():
            prefix_end = position - 1 if position and lowered_text[position - 1] in " _-" else position
            if lowered_text.endswith(_NAME_BEFORE, 0, prefix_end):
                positions |= {
                    prefix_end - len(word) for word in _NAME_BEFORE if lowered_text.endswith(word, 0, prefix_end)
                }
    return sorted(positions)


def _places_of(lowered_text: str, /, *, part: str) -> list[int]:
    return _part_places(lowered_text, part)


_RULES: Final = (
    _SecretRule(
        "private_key",
        ("private key",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{0,60}-----|(?:(?:\s|\\n){1,4}+[A-Za-z0-9+/=]{20,}+)++)"
        ),
    ),
    _SecretRule(
        "jwt",
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"),
    ),
    _SecretRule("api_key", ("sk-",), re.compile(_START + r"sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{20,}+")),
    _SecretRule("api_key", ("k_live_", "k_test_"), re.compile(_START + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+")),
    _SecretRule("api_key", ("aiza",), re.compile(_START + r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    _SecretRule(
        "api_key",
        ("hf_", "npm_", "pypi-"),
        re.compile(_START + r"(?:hf_[A-Za-z0-9]{30,}+|npm_[A-Za-z0-9]{36,}+|pypi-[A-Za-z0-9_-]{40,}+)"),
    ),
    _SecretRule(
        "github_token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(_START + r"(?:gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_[A-Za-z0-9_]{22,}+)"),
    ),
    *(
        _SecretRule(issued.kind, issued.hints, issued.pattern, 0, issued.holds)
        for issued in CREDENTIAL_FORMATS
        if issued.pattern is not None
    ),
    _SecretRule("gitlab_token", ("glpat-",), re.compile(_START + r"glpat-[A-Za-z0-9_-]{20,}+")),
    _SecretRule("aws_key", ("akia", "asia"), re.compile(_START + r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])")),
    _SecretRule(
        "slack_token", ("xox",), re.compile(_START + r"xox[abceoprs]-(?=[A-Za-z-]{0,20}[0-9])[A-Za-z0-9-]{10,}+")
    ),
    _SecretRule(
        "bearer", ("bearer",), re.compile(r"(?i:\bbearer)[ \t]{1,4}([A-Za-z0-9._~+/-]{16,}+={0,2})"), 1, _has_digit
    ),
    _SecretRule(
        "basic_auth",
        ("authorization",),
        re.compile(r"(?i:\bauthorization:[ \t]{0,4}basic)[ \t]{1,4}([A-Za-z0-9+/]{8,}+={0,2})"),
        1,
    ),
    _SecretRule("password", ("://",), re.compile(r"://[^\s/:@\[\]]{1,64}:" + _VALUE_START + r"([^\s/@]{1,128})@"), 1),
    _SecretRule("password", _NAME_PARTS, re.compile(_NAMES + _SEPARATOR + _QUOTED), 1, starts=_name_places),
    _SecretRule(
        "password",
        (*_NAME_PARTS, "pwd"),
        re.compile(rf"(?:{_NAMES}|(?i:\bpwd))={_VALUE_START}({_BARE}{{4,}}+)"),
        1,
        starts=_name_places,
    ),
    _SecretRule(
        "password",
        _NAME_PARTS,
        re.compile(rf"{_NAMES}{_SEPARATOR}{_VALUE_START}({_BARE}{{6,}}+)"),
        1,
        _has_digit,
        _name_places,
    ),
    _SecretRule(
        "password",
        _NAME_PARTS,
        re.compile(rf"{_NAMES}(?:[ ]is[ ]|[ ]?是[ ]?){_VALUE_START}({_BARE}{{6,}}+)"),
        1,
        _is_mixed,
        _name_places,
    ),
    _SecretRule(
        # Without a sign between them: "password hunter2", but not "password manager" nor "password sha256".
        "password",
        ("passw", "passphrase"),
        re.compile(
            rf"(?i:pass(?:word|wd|phrase))[ ](?!{_ALGORITHM}){_VALUE_START}"
            r"([A-Za-z0-9!@#$%^&*+=?~-]{6,64}+)(?=[.,;:!?)\"']{0,3}(?:\s|$))"
        ),
        1,
        _is_mixed,
        _name_places,
    ),
    _SecretRule(
        "token",
        ("secret", "token"),
        re.compile(rf"(?i:\b(?:secret|token)){_SEPARATOR}[\"']?{_VALUE_START}({_BARE}{{12,}}+)"),
        1,
        _is_mixed,
        _token_places,
    ),
    _SecretRule(
        "card_number",
        tuple("23456"),
        re.compile(
            r"(?<![A-Za-z0-9.+-])(?:[2-6][0-9]{12,18}|[2-6][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}"
            r"|3[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?![A-Za-z0-9]|[.-][0-9])"
        ),
        0,
        _is_card,
    ),
)
_EVERY_HINT: Final = dict.fromkeys(
    (*BEGINNING, *WITHIN, *(need for rule in _RULES for need in rule.needs if not need.isdigit()))
)
_MARKS: Final = ("_", "-", ":", "=", "/", ".", "")
_HINTS: Final = {
    mark: tuple(hint for hint in _EVERY_HINT if mark == next(sign for sign in _MARKS if sign in hint))
    for mark in _MARKS
}
"""Hints of secrets, by a character that each contains: most texts that people write have few of these."""
_OF_DIGITS: Final = tuple(rule for rule in _RULES if all(need.isdigit() for need in rule.needs))
_ESCAPE: Final = re.compile(
    r"(\\+)((?:u001[bB]|x1[bB]|033|e)\[[0-9;]{0,16}[A-Za-z]|[nrtfb]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})"
    r"|(\x1b)(\[[0-9;]{0,16}[A-Za-z])"
)
"""A character as JSON and programs write it, or an order to a terminal such as a colour, in either form."""
_HIDING: Final = 0xF0000
"""Offset of characters that belong to no alphabet, which stand for the letters of escapes meanwhile."""
_HIDDEN: Final = re.compile("(?<=[\\\\\x1b])[\U000f0030-\U000f007a]+")
_DIGITS: Final = re.compile("[0-9][0-9]")
"""A text without a hint and without two adjacent digits contains no secret; most texts end here."""
_IBAN_START = re.compile(r"(?<![A-Za-z0-9])([A-Z]{2})[0-9]{2}(?=[ ]?[A-Z0-9]{4})")


def is_suspect(text: str, /) -> bool:
    """Return whether a text has a hint of a secret; without one, `scrub_secrets` finds nothing."""
    lowered_text = _lower_in_place(visible_text(text))
    has_hint = next(_secret_hints(lowered_text), None) is not None or _DIGITS.search(lowered_text) is not None
    return has_hint or may_hold_words(text)


def scrub_secrets(text: str, /) -> ScrubbedText:
    """Return `text` with every secret replaced by `[redacted:kind]`; scrubbing again finds nothing more.

    Characters that are not seen go if they hide a secret, for a block would show it without them. Escapes such as `\\n`
    in code or JSON separate words, as what they stand for does.
    """
    counts: dict[str, int] = {}
    if "\\" in text or "\x1b" in text:
        text = _without_escaped(text, counts)
    clean_text = _scrub_text(_without_words(text, counts), counts)
    visible_chars = visible_text(clean_text)
    if visible_chars != clean_text and (scrubbed_text := _scrub_text(visible_chars, counts)) != visible_chars:
        clean_text = scrubbed_text
    return _SCRUBBED.make(text=clean_text, counts=counts)


def _without_escaped(text: str, counts: dict[str, int]) -> str:
    """Return `text` without secrets next to an escape."""
    hidden_text = _ESCAPE.sub(_hide_escape, text)
    scrubbed_text = _scrub_text(hidden_text, counts) if hidden_text != text else hidden_text
    return _HIDDEN.sub(_shown_escape, scrubbed_text) if scrubbed_text != hidden_text else text


def _hide_escape(match: re.Match[str]) -> str:
    """Return an escape with its letters replaced by characters of no word."""
    return (match[1] or match[3]) + "".join(chr(_HIDING + ord(char)) for char in match[2] or match[4])


def _shown_escape(match: re.Match[str]) -> str:
    return "".join(chr(ord(char) - _HIDING) for char in match[0])


def _scrub_text(text: str, counts: dict[str, int]) -> str:
    lowered_text = _lower_in_place(text)
    hints = tuple(_secret_hints(lowered_text))
    if not hints and _DIGITS.search(lowered_text) is None:
        return text
    starts_by_finder: dict[_Starts, list[int]] = {}
    issuer_rules = [_issuer_rule(hint) for hint in hints if hint in BEGINNING or hint in WITHIN]
    # Without a hint only a card number is possible.
    for rule in (*issuer_rules, *_RULES) if hints else _OF_DIGITS:
        if any(needed_text in lowered_text for needed_text in rule.needs):
            # Rules share their positions until a replacement shifts the text.
            if rule.starts is not None and rule.starts not in starts_by_finder:
                starts_by_finder[rule.starts] = rule.starts(lowered_text)
            clean_text = _redact_rule(
                rule, text, starts_by_finder[rule.starts] if rule.starts is not None else None, counts
            )
            if clean_text != text:
                text, lowered_text = clean_text, _lower_in_place(clean_text)
                starts_by_finder.clear()
    return _without_ibans(text, counts)


def _secret_hints(lowered_text: str) -> Iterator[str]:
    """Yield the hints of secrets in a text."""
    for hint_mark, hints in _HINTS.items():
        if hint_mark in lowered_text:
            for hint in hints:
                if hint in lowered_text:
                    yield hint


@cache
def _issuer_rule(hint: str) -> _SecretRule:
    """Return the rule for credentials of a service, built when a text first has a hint of it."""
    token_expression = BEGINNING.get(hint)
    if token_expression is None:
        # A format within an address begins before its hint, so no positions are known.
        return _SecretRule("api_key", (hint,), re.compile(WITHIN[hint]), 1)
    return _SecretRule("api_key", (hint,), re.compile(_START + token_expression), starts=partial(_places_of, part=hint))


def _lower_in_place(text: str) -> str:
    """Return `text` in lower case, each character in its old position: `lower` turns one capital into two."""
    return text.replace("İ", "i").replace("ſ", "s").lower()


def _redact_rule(rule: _SecretRule, text: str, starts: list[int] | None, counts: dict[str, int]) -> str:
    """Return `text` with the matches of one rule redacted, searched only at `starts` if given."""
    if starts is None:
        return rule.pattern.sub(partial(_blacked_out, rule=rule, counts=counts), text)
    pieces: list[str] = []
    copied_end = 0
    for start in starts:
        # A position inside a redacted match belongs to that match.
        if start >= copied_end and (match := rule.pattern.match(text, start)) is not None:
            pieces += (text[copied_end:start], _blacked_out(match, rule=rule, counts=counts))
            copied_end = match.end()
    return "".join(pieces) + text[copied_end:]


def _blacked_out(match: re.Match[str], *, rule: _SecretRule, counts: dict[str, int]) -> str:
    if not rule.holds(match[rule.group]):
        return match[0]
    counts[rule.kind] = counts.get(rule.kind, 0) + 1
    start, end = match.span(rule.group)
    return f"{match[0][: start - match.start()]}[redacted:{rule.kind}]{match[0][end - match.start() :]}"


def _without_words(text: str, counts: dict[str, int]) -> str:
    """Cut the words of recovery keys, which are ordinary words and only identifiable by their checksum."""
    for start, end in reversed(recovery_spans(text)):
        counts[WORDS_KIND] = counts.get(WORDS_KIND, 0) + 1
        text = f"{text[:start]}[redacted:{WORDS_KIND}]{text[end:]}"
    return text


def _without_ibans(text: str, counts: dict[str, int]) -> str:
    """Cut each IBAN at its country's length, because the words after it may be capitals and digits too."""
    pieces: list[str] = []
    copied_end = 0
    for start_match in _IBAN_START.finditer(text):
        # Many other texts begin with two capitals and two digits, so the country is checked first.
        iban_chars = IBAN_CHARS_BY_COUNTRY.get(start_match[1], 0)
        iban_match = (
            _iban_form(iban_chars).match(text, start_match.start())
            if iban_chars and start_match.start() >= copied_end
            else None
        )
        if iban_match is not None and _is_iban(iban_match[0]):
            counts["iban"] = counts.get("iban", 0) + 1
            pieces += (text[copied_end : iban_match.start()], "[redacted:iban]")
            copied_end = iban_match.end()
    return "".join(pieces) + text[copied_end:]


@cache
def _iban_form(size: int) -> re.Pattern[str]:
    """Return the pattern of a number of `size` capitals and digits with single spaces between them."""
    return re.compile(rf"(?:[A-Z0-9][ ]?){{{size - 1}}}[A-Z0-9](?![A-Za-z0-9])")


def public_record(record: records.Record, /) -> records.Record | None:
    """Return the record without earlier versions; None unless it is called public and may be read."""
    if record.privacy is not facts.FactPrivacy.PUBLIC or record.forgotten_at is not None:
        return None
    return record.model_copy(update={"earlier": ()})


@dataclass(slots=True)
class PublicForm:
    """Builds the public form of a space's documents, facts before their slots."""

    planes: Callable[[str, bytes], bytes | None]
    """The public form of a document of another plane."""
    now: Instant
    _facts: set[FactId] = field(default_factory=set[FactId])

    def public(self, collection: str, body: bytes, /) -> bytes | None:
        """Return the document's public form; None if it has none."""
        match collection:
            case facts.FACTS:
                fact = facts.Fact.from_bytes(body)
                if not self._is_public(fact):
                    return None
                self._facts.add(fact.id)
                return fact.model_copy(update={"citations": (), "chat": None, "supersedes": None}).to_bytes()
            case facts.SLOTS:
                slot = facts.FactSlot.from_bytes(body)
                public_facts = tuple(fact for fact in slot.facts if fact in self._facts)
                return slot.model_copy(update={"facts": public_facts}).to_bytes() if public_facts else None
            case skills.SKILLS:
                skill = skills.Skill.from_bytes(body)
                if not skill.is_recallable:
                    return None
                return skill.model_copy(update={"citations": (), "source_chat_id": None}).to_bytes()
            case _:
                return self.planes(collection, body)

    def _is_public(self, fact: facts.Fact) -> bool:
        """Return whether `fact` is the current one of its slot, has not ended, and is neither private nor limited to a
        chat.

        What is open is listed, so a state that is added later stays out.
        """
        has_ended = fact.valid_to is not None and fact.valid_to <= self.now
        is_shared = fact.privacy is not facts.FactPrivacy.PRIVATE and fact.home is None
        return fact.state is facts.FactState.ACTIVE and not has_ended and is_shared
