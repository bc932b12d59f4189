"""The space of a repository: the same for its clones, worktrees and subfolders, another one for any other."""

import shutil
import subprocess
from pathlib import Path

import pytest

from elytron_assistants.repository import network_origin, repository_space

GIT = shutil.which("git")


def git(folder: Path, *arguments: str) -> None:
    if GIT is None:
        pytest.skip("git is not installed")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always")
    subprocess.run([GIT, *who, *arguments], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, *, origin: str | None = None) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    if origin is not None:
        git(folder, "remote", "add", "origin", origin)
    return folder


SAME = (
    "git@github.com:Acme/shop.git",
    "https://github.com/acme/shop",
    "https://ada:s3cret@github.com/acme/shop.git/",
    "ssh://git@github.com:22/acme/shop.git",
    "git://github.com/acme/shop.git",
)


def test_each_form_of_an_address_is_the_same_origin() -> None:
    assert {network_origin(url) for url in SAME} == {"github.com/acme/shop"}


def test_other_hosts_ports_and_paths_are_other_origins() -> None:
    urls = (
        "git@git.acme.example:Shop.git",
        "git@git.acme.example:shop.git",
        "ssh://git@git.acme.example:2222/shop.git",
    )
    assert len({network_origin(url) for url in urls}) == 3


@pytest.mark.parametrize(
    "url", ["", "/srv/git/shop.git", "../shop", "file:///srv/shop.git", "C:/git/shop", "http://[x/"]
)
def test_what_is_on_this_machine_is_no_remote(url: str) -> None:
    assert network_origin(url) is None


def test_clones_worktrees_and_subfolders_share_a_space(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", origin=SAME[0])
    (main / "packages" / "web").mkdir(parents=True)
    git(main, "worktree", "add", "-q", str(tmp_path / "worktree"))
    clone = repository(tmp_path / "clone", origin=SAME[2])
    (tmp_path / "link").symlink_to(main)
    places = (main, main / "packages" / "web", tmp_path / "worktree", clone, tmp_path / "link", main / "gone" / "deep")
    assert len({repository_space(place) for place in places}) == 1


def test_without_a_remote_worktrees_share_a_space_and_equal_names_do_not(tmp_path: Path) -> None:
    one, other = repository(tmp_path / "one" / "shop"), repository(tmp_path / "other" / "shop")
    git(one, "worktree", "add", "-q", str(tmp_path / "worktree"))
    assert repository_space(tmp_path / "worktree") == repository_space(one) != repository_space(other)


def test_a_submodule_has_a_space_of_its_own(tmp_path: Path) -> None:
    library, main = repository(tmp_path / "library"), repository(tmp_path / "main")
    git(main, "submodule", "add", "-q", str(library), "vendor/library")
    assert len({repository_space(main), repository_space(main / "vendor" / "library"), repository_space(library)}) == 3


def test_variables_of_a_git_hook_do_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    before = repository_space(one)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert repository_space(one) == before


def test_a_folder_without_git_is_its_own_and_shared_places_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home / "notes", temporary / "scratch"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert [repository_space(place) for place in (home, temporary, Path(home.anchor))] == [None] * 3
    name = repository_space(home / "notes")
    assert name is not None
    assert name.startswith("project-")
    assert name != repository_space(temporary / "scratch")


@pytest.mark.parametrize("content", ["", "gitdir: /nowhere/at/all", "not a pointer", "gitdir:"])
def test_a_broken_pointer_to_a_git_directory_raises_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content, "utf-8")
    assert (repository_space(tmp_path) or "").startswith("project-")
