"""Settings of the command line, from an option, the environment, `elytron.toml`, or the default, in this order."""

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from shutil import which

from elytron_core.errors import InvalidInput, UnreadableFile

FILE = "elytron.toml"
FILE_BYTES = 64 * 1024
DEFAULT_SPACE = "default"
YES_WORDS, NO_WORDS = frozenset({"yes", "true", "1", "on"}), frozenset({"no", "false", "0", "off"})
MASK = "********"
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/\s]+(?=@)|([?&](?:ssl)?password=)[^&\s]+")
"""A password in a URL, before the host or among its options."""
GATEWAY_SECRET_CHARS = 32


@dataclass(frozen=True, slots=True)
class FoundSetting:
    """A value and its source. A secret one does not show itself."""

    value: str
    origin: str
    secret: bool = False

    @property
    def masked_value(self) -> str:
        return MASK if self.secret else _PASSWORD.sub(rf"\1\2{MASK}", self.value)

    def __repr__(self) -> str:
        return f"Setting({self.masked_value!r}, {self.origin!r})"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The store, the space and the keys of a run."""

    store: FoundSetting
    space: FoundSetting
    key_file: FoundSetting | None = None
    agent_skill_dirs: FoundSetting | None = None
    embedder: FoundSetting | None = None
    embedder_key: FoundSetting | None = None
    language_model: FoundSetting | None = None
    model_key: FoundSetting | None = None
    keys: FoundSetting | None = None
    api_key: FoundSetting | None = None
    """The access key for a server: one that commands call, and one that shares its store."""
    gateway_secret: FoundSetting | None = None
    space_secret: FoundSetting | None = None
    """The words or the passphrase of the space."""
    profile: FoundSetting | None = None
    agent: FoundSetting | None = None
    channel: FoundSetting | None = None
    chat: FoundSetting | None = None
    per_repository: FoundSetting | None = None

    @property
    def is_per_repository(self) -> bool:
        """True if the folder decides the space. Raises InvalidInput for anything but yes or no."""
        setting = self.per_repository
        if setting is None or setting.value in NO_WORDS:
            return False
        if setting.value not in YES_WORDS:
            raise InvalidInput(field=setting.origin, problem="is neither `yes` nor `no`")
        return True

    def explicit_settings(self) -> dict[str, FoundSetting]:
        """Return the explicit settings, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: setting for name, setting in values.items() if isinstance(setting, FoundSetting)}


OPTIONS = (
    "store",
    "space",
    "key_file",
    "agent_skill_dirs",
    "embedder",
    "language_model",
    "profile",
    "agent",
    "channel",
    "chat",
    "per_repository",
)
"""Settings that may come from an option, the environment or the file."""
SECRETS = ("keys", "api_key", "embedder_key", "model_key", "gateway_secret", "space_secret")
"""Settings that only come from the environment."""
SECRET_VARIABLES = frozenset(f"ELYTRON_{name.upper()}" for name in SECRETS)

OTHER_VARIABLES = {
    "ELYTRON_URL": "address of the server for client commands (--url)",
    "ELYTRON_PROXY": "HTTP proxy for client commands (--proxy)",
    "ELYTRON_LLM_UPSTREAM_KEY": "key of the proxy's model server; with the suffix _PREFIX, of that prefix's server",
    "ELYTRON_ALLOW_HOST": "host names that `elytron serve` accepts, separated by spaces (--allow-host)",
    "ELYTRON_TRUSTED_PROXY": "trusted proxies in front of `elytron serve`, separated by spaces (--trusted-proxy)",
    "ELYTRON_STATE_DIR": "folder for what hooks and installers record; default: the system's place for a user's state",
    "ELYTRON_DEBUG": "1 shows the traceback of an internal error",
}
"""Variables of single commands, with their descriptions."""


def ways_to_set(name: str, /) -> str:
    """Return the ways to give a setting."""
    variable = f"ELYTRON_{name.upper()}"
    if name in SECRETS:
        return variable
    return f"--{name.replace('_', '-')}, {variable}, or {name} in {FILE}"


ALSO_READ = {"agent_skill_dirs": "BM_AGENT_SKILL_DIRS"}
"""Other variables with the same meaning, used if ours is not set."""


def resolve_settings(
    options: Mapping[str, str], /, *, environment: Mapping[str, str], folder: Path | None
) -> RunSettings:
    """Return the settings; without a folder, no file is read.

    Raises InvalidInput for an unknown key in the file, UnreadableFile if it is no TOML.
    """
    file = file_settings(folder / FILE) if folder is not None else {}
    settings: dict[str, FoundSetting] = {}
    for name in OPTIONS:
        variable = f"ELYTRON_{name.upper()}"
        if name in options:
            settings[name] = FoundSetting(options[name], f"--{name.replace('_', '-')}")
        elif environment.get(variable):
            settings[name] = FoundSetting(environment[variable], variable)
        elif environment.get(other_variable := ALSO_READ.get(name, variable)):
            settings[name] = FoundSetting(environment[other_variable], other_variable)
        elif name in file:
            settings[name] = FoundSetting(file[name], FILE)
    for name in SECRETS:
        variable = f"ELYTRON_{name.upper()}"
        if environment.get(variable):
            settings[name] = FoundSetting(environment[variable], variable, secret=True)
    if "key_file" in settings:
        settings.pop("keys", None)
    secret = settings.get("gateway_secret")
    if secret is not None and len(secret.value) < GATEWAY_SECRET_CHARS:
        problem = f"is shorter than {GATEWAY_SECRET_CHARS} characters: choose a longer one"
        raise InvalidInput(field=secret.origin, problem=problem)
    settings.setdefault("space", FoundSetting(DEFAULT_SPACE, "default"))
    if "store" not in settings:
        settings["store"] = FoundSetting(str(default_store()), "default")
    return RunSettings(**settings)


def called_as(program: str, /, *, environment: Mapping[str, str], folder: Path) -> str:
    """Return what starts this program again from `folder`: uv, its name if it is on the path, else its own path.

    uv puts its environment on the path of what it starts, and the caller's shell does not have it there.
    """
    if Path(program).stem != "elytron":
        return "elytron"
    if "UV" in environment:
        project = next(
            (
                parent_folder
                for parent_folder in (folder, *folder.parents)
                if (parent_folder / "pyproject.toml").is_file()
            ),
            folder,
        )
        is_project_run = "UV_RUN_RECURSION_DEPTH" in environment and Path(program).is_relative_to(project / ".venv")
        return "uv run elytron" if is_project_run else shlex.quote(program)
    command_path = which("elytron", path=environment.get("PATH"))
    is_on_path = command_path is not None and Path(command_path).resolve() == Path(program).resolve()
    return "elytron" if is_on_path else shlex.quote(program)


def program_path(program: str, /) -> str:
    """Return the absolute path of this command, for other programs without the user's shell path."""
    started_path = Path(program)
    folders = [started_path.parent] if started_path.stem == "elytron" and started_path.is_absolute() else []
    search_path = os.pathsep.join(map(str, (*folders, Path(sys.executable).parent)))
    command_path = which("elytron", path=search_path) or which("elytron")
    return str(Path(command_path).absolute()) if command_path is not None else "elytron"


def default_store() -> Path:
    """Return the default store: a database in the system's place for a user's data."""
    from platformdirs import user_data_path

    return user_data_path("elytron", appauthor=False) / "memory.db"


def state_folder(environment: Mapping[str, str], /) -> Path:
    """Return the folder for the records of hooks and installers; no file in a project can choose it."""
    from platformdirs import user_state_path

    folder = environment.get("ELYTRON_STATE_DIR")
    return Path(folder).expanduser().absolute() if folder else user_state_path("elytron", appauthor=False)


def file_settings(path: Path, /) -> dict[str, str]:
    """Return the settings in a file, nothing if there is none. Raises UnreadableFile, InvalidInput."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnreadableFile.unopened(FILE, error) from error
    if len(data) > FILE_BYTES:
        raise UnreadableFile(name=FILE, problem=f"is larger than {FILE_BYTES} bytes")
    try:
        values = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise UnreadableFile(name=FILE, problem="is not TOML in UTF-8") from None
    unknown_names = sorted(values.keys() - set(OPTIONS))
    if unknown_names:
        raise InvalidInput(
            field=FILE, problem=f"has the unknown key {unknown_names[0]!r}: choose from {', '.join(OPTIONS)}"
        )
    wrong_names = sorted(name for name, value in values.items() if not isinstance(value, str) or not value)
    if wrong_names:
        raise InvalidInput(field=f"{FILE}, {wrong_names[0]}", problem="is not a string")
    return values
