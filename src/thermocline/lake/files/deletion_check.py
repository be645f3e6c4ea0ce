"""The one comparison of files that are about to be deleted with files that are needed.

    needed: every path that the table, its readers and the journal name → NeededFiles.need
    candidate: a listed or noted file → NeededFiles.judge → Deletable, kept, or a refusal of all

Invariant: a `Deletable` is made here alone, and only for a file that is none of the needed ones under any reading of
their paths: another canonical path, another inode, another loose form, and no base name of a metadata file or of a file
outside the table's folders. Where the forms disagree (the loose ones meet, the exact ones do not) nothing of the whole
operation is deleted: what cannot be compared must not be judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, replace
from urllib.parse import unquote

from thermocline.core.lake_paths import (
    base_name,
    canonical_path,
    has_unique_name,
    is_ambiguous_key,
    is_text,
    literal_path,
    loose_path,
    loose_paths,
)
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.errors.maintenance import PathSpellingsDiffer
from thermocline.lake.files.path_set import PathSet

_SEAL = object()
Source = Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletable:
    """A file that no one needs, by the comparison. Deletion accepts nothing else."""

    path: str
    size_bytes: int
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only NeededFiles.judge makes a Deletable")

    def with_size(self, size_bytes: int) -> Deletable:
        return replace(self, size_bytes=size_bytes, seal=_SEAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVerdict:
    """The files that may be deleted, and how many stay because they are outside the table's folders or have a name that
    is unsafe to delete."""

    deletable: tuple[Deletable, ...] = ()
    outside: int = 0
    needed: tuple[str, ...] = ()
    """Paths of the candidates that are needed."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file on this machine."""

    identity: str
    path: str


class NeededFiles:
    """Paths that are needed. `roots` are the folders from which files may be deleted; None: any folder. With
    `refuses_other_spellings` a candidate that is certainly needed under another spelling stops the operation too."""

    def __init__(self, table: str, roots: Sequence[str] | None, *, refuses_other_spellings: bool = False) -> None:
        self._table = table
        self._refuses = refuses_other_spellings
        self._exact_form = literal_path if refuses_other_spellings else canonical_path
        self._sources: list[Source] = []
        self._exact, self._inodes, self._loose, self._names = PathSet(), PathSet(), PathSet(), PathSet()
        self._folders: dict[str, str] = {}
        self._roots = None if roots is None else tuple(canonical_path(root).rstrip("/") + "/" for root in roots)
        self._real_roots = tuple(
            os.path.realpath(root).rstrip("/") + "/" for root in self._roots or () if root.startswith("/")
        )

    def need(self, source: Source) -> None:
        """Protect every path of the source. The source is read again when a refusal has to name its spelling."""
        self._sources.append(source)
        for path in source():
            text = canonical_path(path)
            loosely = loose_paths(path)
            self._exact.add([self._exact_form(path)])
            self._loose.add(loosely)
            found = self._find(text) if text.startswith("/") else None
            if found is not None:
                self._inodes.add([found.identity])
            if has_unique_name(path) or not self._is_within(text, found):
                self._names.add(base_name(form) for form in loosely)

    def need_paths(self, paths: Collection[str]) -> None:
        self.need(lambda: paths)

    def judge(self, files: Sequence[ListedFile]) -> DeletionVerdict:
        """Which of the files may be deleted; refuses all when one may be a needed file under another spelling."""
        deletable, outside = list[Deletable](), 0
        texts = [canonical_path(file.path) for file in files]
        exactly = self.names([file.path for file in files])
        needed = [file.path for file, is_needed in zip(files, exactly, strict=True) if is_needed]
        for file, text in [
            (file, text) for file, text, is_needed in zip(files, texts, exactly, strict=True) if not is_needed
        ]:
            found = self._find(text) if text.startswith("/") else None
            if found is not None and found.identity in self._inodes:
                if self._refuses:
                    raise self._refusal(file.path, lambda path, found=found: self._is_file(path, found))  # type: ignore[misc]
                needed.append(file.path)
            elif loose_path(file.path) in self._loose:
                raise self._refusal(file.path, lambda path, file=file: loose_path(file.path) in loose_paths(path))  # type: ignore[misc]
            elif (name := base_name(loose_path(file.path))) in self._names:
                raise self._refusal(file.path, lambda path, name=name: _has_name(path, name))  # type: ignore[misc]
            elif (
                is_ambiguous_key(file.path)
                or not is_text(file.path)
                or not self._is_within(text, found, even_gone=True)
            ):
                outside += 1
            else:
                deletable.append(Deletable(path=file.path, size_bytes=file.size_bytes, seal=_SEAL))
        return DeletionVerdict(deletable=tuple(deletable), outside=outside, needed=tuple(needed))

    def names(self, paths: Sequence[str]) -> list[bool]:
        """For each path whether it is needed under exactly this spelling."""
        return [bool(found) for found in self._exact.which([self._exact_form(path) for path in paths])]

    def may_be_needed(self, path: str) -> bool:
        """Whether the path is a needed file, or may be one."""
        text = canonical_path(path)
        found = self._find(text) if text.startswith("/") else None
        return (
            self._exact_form(path) in self._exact
            or (found is not None and found.identity in self._inodes)
            or loose_path(path) in self._loose
            or base_name(loose_path(path)) in self._names
        )

    def _is_file(self, path: str, wanted: _Found) -> bool:
        text = canonical_path(path)
        found = self._find(text) if text.startswith("/") else None
        return found is not None and found.identity == wanted.identity

    def _find(self, text: str) -> _Found | None:
        """The file that a local path leads to, through links; with the decoded name when nothing exists under the
        literal one."""
        for path in _readings(text):
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            folder, _, name = path.rpartition("/")
            if folder not in self._folders:
                self._folders[folder] = os.path.realpath(folder)
            return _Found(f"{status.st_dev}:{status.st_ino}", f"{self._folders[folder]}/{name}")
        return None

    def _is_within(self, text: str, found: _Found | None, *, even_gone: bool = False) -> bool:
        """Whether a file is in the table's folders, both by its name and with links resolved."""
        if self._roots is None:
            return True
        if "/../" in text or not text.startswith(self._roots):
            return False
        if not text.startswith("/"):
            return True
        return found.path.startswith(self._real_roots) if found is not None else even_gone

    def _refusal(self, listed: str, is_meant: Callable[[str], bool]) -> PathSpellingsDiffer:
        named = next((path for path in self._named() if is_meant(path)), "a path that is no longer named")
        return PathSpellingsDiffer(
            f"{self._table}: {listed} may be the file that is named as {named}, under another spelling or in "
            "another place; "
            "nothing was deleted."
        )

    def _named(self) -> Iterator[str]:
        for source in self._sources:
            yield from source()


def _readings(text: str) -> Iterator[str]:
    """A local path as it is, decoded, and with dot segments removed before links are followed, as Hadoop does."""
    yield text
    if "%" in text:
        yield unquote(text)
    if "/.." in text:
        yield os.path.normpath(text)
        yield os.path.normpath(unquote(text))


def _has_name(path: str, name: str) -> bool:
    return any(base_name(form) == name for form in loose_paths(path))
