"""Working trees: the one here, and another revision of it in a git worktree."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tracereel.errors import TracereelError

_ENVIRONMENTS: Final = frozenset({"site-packages", "dist-packages"})
_GIT_SECONDS: Final = 120
MAX_COMMITS: Final = 100_000


class RevisionError(TracereelError):
    """A revision is not there, or git cannot check it out."""


def relocate(root: str, moved_from: str) -> None:
    """Make the folders of `sys.path` absolute, and those of another tree the ones of this tree."""
    sys.path[:] = [
        str(Path(root, each)) if not Path(each).is_absolute() else each for each in sys.path
    ]
    if not moved_from:
        return
    old = Path(moved_from)
    for at, each in enumerate(sys.path):
        path = Path(each)
        if path.is_relative_to(old) and _ENVIRONMENTS.isdisjoint(path.parts):
            sys.path[at] = str(Path(root, path.relative_to(old)))


def missed_modules(names: Iterable[str], root: str, moved_from: str) -> str:
    """Return a module that came from the tree that was moved from, or an empty string."""
    if not moved_from:
        return ""
    for name in sorted(names):
        file = getattr(sys.modules.get(name), "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file)
        if (
            path.is_relative_to(moved_from)
            and not path.is_relative_to(root)
            and _ENVIRONMENTS.isdisjoint(path.parts)
            and not name.startswith("tracereel")
        ):
            return name
    return ""


class Revisions:
    """Worktree beside the repository of a folder, for one revision after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._place: tempfile.TemporaryDirectory[str] | None = None
        self._target: Path | None = None

    def __enter__(self) -> Self:
        self._place = tempfile.TemporaryDirectory(prefix="tracereel-revision-")
        return self

    def __exit__(self, *_: object) -> None:
        if self._target is not None:
            _git(self._folder, "worktree", "remove", "--force", str(self._target))
        if self._place is not None:
            self._place.cleanup()

    def commit(self, revision: str) -> str:
        """Return the id of a revision.

        Raises:
            RevisionError: git does not know it.
        """
        named = f"{revision}^{{commit}}"
        return _git(self._folder, "rev-parse", "--verify", "--end-of-options", named)

    def subject(self, commit: str) -> str:
        """Return the first line of a commit's message."""
        return _git(self._folder, "log", "-1", "--format=%s", commit)[:200]

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits from one revision to a later one, with both, merges as one step.

        Raises:
            RevisionError: one does not lead to the other, or there are too many.
        """
        first, last = self.commit(good), self.commit(bad)
        listed = _git(self._folder, "rev-list", "--first-parent", "--reverse", f"{first}..{last}")
        commits = listed.split()
        parents = _git(self._folder, "rev-parse", f"{commits[0]}^@").split() if commits else []
        if first not in parents:
            raise RevisionError(
                f"{good} is not before {bad} in the history of first parents; expected an ancestor"
            )
        if len(commits) > MAX_COMMITS:
            raise RevisionError(f"there are {len(commits)} commits; at most {MAX_COMMITS}")
        return [first, *commits]

    def check_out(self, commit: str) -> Path:
        """Check a commit out; return the counterpart of the folder in it."""
        assert self._place is not None  # noqa: S101 - used in a `with` block
        if self._target is None:
            target = Path(self._place.name).resolve() / "tree"
            _git(self._folder, "worktree", "add", "--detach", "--force", str(target), commit)
            self._target = target
        else:
            _git(self._target, "checkout", "--detach", "--force", commit)
        top = Path(_git(self._folder, "rev-parse", "--show-toplevel"))
        return self._target / self._folder.relative_to(top.resolve())


@contextmanager
def worktree(revision: str, folder: Path) -> Iterator[Path]:
    """Check a revision out beside the repository; return the counterpart of a folder in it.

    Raises:
        RevisionError: git does not know the revision.
    """
    with Revisions(folder) as revisions:
        yield revisions.check_out(revisions.commit(revision))


def _git(folder: Path, *words: str) -> str:
    # Hooks of the repository are not part of a replay.
    command = ["git", "-c", f"core.hooksPath={os.devnull}", *words]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words and a revision that the user typed
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RevisionError(f"git cannot be run: {error}") from error
    if done.returncode:
        raise RevisionError(f"git {words[0]} failed: {done.stderr.strip()[:500]}")
    return done.stdout.strip()
