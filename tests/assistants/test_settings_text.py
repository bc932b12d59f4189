"""Host settings are changed in place: other content stays, and undoing a change restores every byte."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_assistants.wiring.host_table import SettingsStyle
from elytron_assistants.wiring.jsonc_text import read_text
from elytron_assistants.wiring.settings_text import SettingsEntry, add_entries, remove_own, undo_changes
from elytron_core.errors import UnreadableFile
from elytron_core.strict_json import Json

HOOK = "'/a b/elytron' hooks recall --per-repository"
ENTRIES = (
    SettingsEntry(("mcpServers", "elytron"), {"command": "/a b/elytron", "args": ["mcp"]}),
    SettingsEntry(("hooks", "Stop"), {"hooks": [{"type": "command", "command": HOOK, "timeout": 15}]}, is_item=True),
    SettingsEntry(("hooks", "PreCompact"), {"command": HOOK}, is_item=True),
)
TABLE = (SettingsEntry(("mcp_servers", "elytron"), {"command": "/a b/elytron", "args": ["mcp", "--space", "é"]}),)

WORDS = st.sampled_from(["a", "hooks", "mcpServers", "Stop", "other", 'quo"te', "back\\slash", "é", "//", "/*"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 1) | WORDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)
SPACES = st.sampled_from(["", " ", "\n  ", "\r\n\t", " // a note, with {brackets}\n", "/* a\nblock */"])


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """Return an object as people write it: with comments, trailing commas and any spaces."""
    own: dict[str, Json] = {
        "hooks": draw(st.dictionaries(st.sampled_from(["Stop", "Start"]), st.lists(VALUES, max_size=2), max_size=2)),
        "mcpServers": draw(st.dictionaries(WORDS, VALUES, max_size=2)),
    }
    settings = draw(st.dictionaries(WORDS.filter(lambda word: word not in own), VALUES, max_size=3))
    settings |= {key: own[key] for key in draw(st.sets(st.sampled_from(sorted(own))))}

    def written(value: Json) -> str:
        gap = draw(st.sampled_from(["", " ", "\n\t"]))
        if isinstance(value, dict):
            parts = [f"{draw(SPACES)}{json.dumps(key)} :{written(inner)}" for key, inner in value.items()]
        elif isinstance(value, list):
            parts = [written(inner) for inner in value]
        else:
            return f"{gap}{json.dumps(value)}{draw(SPACES)}"
        comma = "," if parts and draw(st.booleans()) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{gap}{opening}{','.join(parts)}{comma}{draw(SPACES)}{closing}"

    return f"{draw(st.sampled_from(['', chr(0xFEFF)]))}{written(settings)}{draw(SPACES)}"


def with_entries(settings: Json) -> dict[str, Any]:
    """Return the expected settings afterwards."""
    after: dict[str, Any] = json.loads(json.dumps(settings))
    for entry in ENTRIES:
        outer, inner = entry.path
        members = after.setdefault(outer, {})
        members[inner] = [*members.get(inner, []), entry.value] if entry.is_item else entry.value
    return after


@given(json_texts())
def test_adding_entries_to_any_settings_can_be_undone_byte_for_byte(text: str) -> None:
    before = read_text(text, "settings.json").value
    after, undo = add_entries(text, ENTRIES, SettingsStyle.JSON, "settings.json")
    assert read_text(after, "settings.json").value == with_entries(before)
    assert undo_changes(after, undo) == text


@given(json_texts())
def test_entries_are_recognised_without_a_record_and_comments_are_preserved(text: str) -> None:
    after, _ = add_entries(text, ENTRIES, SettingsStyle.JSON, "settings.json")
    cleaned = remove_own(after, SettingsStyle.JSON, "settings.json")

    def filled(settings: Json) -> Json:
        assert isinstance(settings, dict)
        hooks = settings.get("hooks")
        kept = {event: items for event, items in hooks.items() if items} if isinstance(hooks, dict) else {}
        rest = {key: value for key, value in settings.items() if key not in {"hooks", "mcpServers"}}
        servers = settings.get("mcpServers")
        return {**rest, **({"hooks": kept} if kept else {}), **({"mcpServers": servers} if servers else {})}

    assert filled(read_text(cleaned, "settings.json").value) == filled(read_text(text, "settings.json").value)
    assert cleaned.count("// a note") == text.count("// a note")
    assert remove_own(cleaned, SettingsStyle.JSON, "settings.json") == cleaned


@pytest.mark.parametrize(
    "text",
    ["", "# a note\n", 'model = "o"\n[mcp_servers.docs]\ncommand = "docs"  # mine', '[mcp_servers."a.b"]\r\nx = 1\r\n'],
)
def test_adding_a_toml_table_can_be_undone_byte_for_byte(text: str) -> None:
    after, undo = add_entries(text, TABLE, SettingsStyle.TOML, "config.toml")
    settings = tomllib.loads(text)
    servers = {**settings.get("mcp_servers", {}), "elytron": TABLE[0].value}
    assert tomllib.loads(after) == {**settings, "mcp_servers": servers}
    assert undo_changes(after, undo) == text
    assert tomllib.loads(remove_own(after, SettingsStyle.TOML, "config.toml")) == settings


def test_our_table_is_removed_with_its_subtables_and_comments_stay() -> None:
    text = (
        '[mcp_servers . "elytron"]\ncommand = "old"\nargs = [\n  "mcp",\n]\n\n'
        '[mcp_servers.elytron.env]\nA = "b"\n\n# mine\n[tui]\ntheme = "dark"\n'
    )
    assert remove_own(text, SettingsStyle.TOML, "config.toml") == '# mine\n[tui]\ntheme = "dark"\n'
    text = "[mcp_servers.elytron]\nA = '''\n[not a table]\n'''\n"
    with pytest.raises(UnreadableFile, match="remove it by hand"):
        remove_own(text, SettingsStyle.TOML, "config.toml")


@pytest.mark.parametrize(
    ("command", "is_own"),
    [
        (HOOK, True),
        ('"C:/Program Files/elytron.exe" hooks keep --store "a b.db"', True),
        (r"C:\tools\elytron.exe hooks keep", True),
        ("elytron hooks status --wrap 'date; echo &'", True),
        (f"{HOOK} | tee log", False),
        (f"cd /w && {HOOK}", False),
        (f"echo '{HOOK.replace(chr(39), '')}'", False),
        ("my-elytron-wrapper hooks recall", False),
        ("elytron hooks recall; rm log", False),
        ("elytron hooks explain", False),
        ("elytron hooks recall 'open", False),
    ],
)
def test_only_a_complete_command_of_ours_is_recognised(command: str, is_own: bool) -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}})
    assert (remove_own(text, SettingsStyle.JSON, "settings.json") != text) == is_own


def test_our_hook_in_a_users_group_is_removed_individually() -> None:
    own, hook = {"command": "lint"}, {"command": HOOK}
    text = json.dumps({"hooks": {"Stop": [{"matcher": "x", "hooks": [own, hook]}]}})
    cleaned = remove_own(text, SettingsStyle.JSON, "settings.json")
    assert json.loads(cleaned) == {"hooks": {"Stop": [{"matcher": "x", "hooks": [own]}]}}


@pytest.mark.parametrize(
    ("text", "style", "line"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', SettingsStyle.JSON, 3),
        ('{\n  "hooks": []\n}', SettingsStyle.JSON, 2),
        ('{\n  "a": 1,\n  "a": 2\n}', SettingsStyle.JSON, 3),
        ('{\n  "a": "s3cret', SettingsStyle.JSON, 2),
        ('{\n\n"a": nul}', SettingsStyle.JSON, 3),
        ('{\n  "a":', SettingsStyle.JSON, 2),
        ("{\n  true: 1}", SettingsStyle.JSON, 2),
        ('{\n  "a" 1}', SettingsStyle.JSON, 2),
        ('{\n  "hooks": {\n    "Stop": {}}}', SettingsStyle.JSON, 3),
        ("{} x", SettingsStyle.JSON, 1),
        ("[]", SettingsStyle.JSON, 1),
        ("[" * 100_000, SettingsStyle.JSON, 1),
        ('a = 1\nb = "s3cret', SettingsStyle.TOML, 2),
        ('a = 1\nmcp_servers = {docs = {command = "x"}}\n', SettingsStyle.TOML, 2),
    ],
)
def test_broken_settings_are_rejected_by_line(text: str, style: SettingsStyle, line: int) -> None:
    entries = TABLE if style is SettingsStyle.TOML else ENTRIES
    with pytest.raises(UnreadableFile) as refusal:
        add_entries(text, entries, style, "settings")
    assert refusal.value.line == line
    assert "s3cret" not in refusal.value.message
