"""Forms of keys and tokens that services issue, by a part that each contains, in small letters.

Each form is long and of its issuer alone, so that no ordinary text has one. What has no form of its own, a Twilio token
or a Datadog key, is found only if its name precedes it.
"""

from types import MappingProxyType
from typing import Final

_HEX: Final = "[0-9a-f]"
_WORD: Final = "[A-Za-z0-9]"
_URL: Final = "[A-Za-z0-9_-]"
_BASE: Final = "[A-Za-z0-9+/]"

BEGINNING: Final = MappingProxyType(
    {
        # Models and what they search with.
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
        # Watching.
        "glsa_": rf"glsa_{_WORD}{{32}}_{_HEX}{{8}}",
        "glc_": rf"glc_eyJ{_BASE}{{40,}}+={{0,2}}",
        "sntrys_": r"sntrys_[A-Za-z0-9+/_=-]{50,}+",
        "sntryu_": rf"sntryu_{_HEX}{{64}}",
        "nrak-": r"NRAK-[A-Z0-9]{27}",
        "phx_": rf"phx_{_WORD}{{40,}}+",
        # Money, shops, messages.
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
"""Forms that begin with what names them."""

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
"""Forms within addresses and settings; the first group is the secret."""
