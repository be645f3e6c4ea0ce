"""The comparison before every deletion: spellings of one file are never taken for two, and only its proof deletes."""

from __future__ import annotations

import ast
import os
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermocline
from thermocline.core.lake_paths import canonical_path, is_ambiguous_key, loose_folder, loose_path
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.errors.maintenance import FolderInUse, PathSpellingsDiffer
from thermocline.lake.files.delete_files import delete_file, move_aside, move_back
from thermocline.lake.files.delete_trees import DeletableTree, delete_tree, judge_tree, may_be_below
from thermocline.lake.files.deletion_check import Deletable, DeletionVerdict, NeededFiles

pytestmark = pytest.mark.unit

NAMES = st.text(st.sampled_from("aAbé ß+#?%20ñ=&~中\u0301'"), min_size=1, max_size=8).map(
    lambda text: f"{text}.parquet"
)
Draw = Callable[[st.SearchStrategy[object]], object]


def listed(path: str) -> ListedFile:
    return ListedFile(path=path, size_bytes=1, modified=None)


def judged(needed: str, candidate: str, root: str, *, refuses: bool = False) -> DeletionVerdict | None:
    """What the comparison says of a candidate when this path is needed; None when it refuses."""
    files = NeededFiles("t", [root], refuses_other_spellings=refuses)
    files.need_paths([needed])
    said: DeletionVerdict | None = None
    with suppress(PathSpellingsDiffer):
        said = files.judge([listed(candidate)])
    return said


def other_slashes(draw: Draw, path: str) -> str:
    """More slashes, dots, and folders that are entered and left."""
    parts = path.split("/")
    woven = [parts[0]]
    for part in parts[1:]:
        woven.append(str(draw(st.sampled_from(["/", "//", "///", "/./", "/data/../", "/no such folder/../"]))) + part)
    return "".join(woven)


def other_letters(draw: Draw, path: str) -> str:
    """Escapes, another composition of accents, another case, plus for blank."""
    how = draw(st.sampled_from(["as it is", "escaped", "all escaped", "twice", "NFC", "NFD", "upper", "plus"]))
    match how:
        case "escaped":
            return quote(path)
        case "all escaped":
            return "".join(
                letter if letter == "/" else "".join(f"%{byte:02x}" for byte in letter.encode()) for letter in path
            )
        case "twice":
            return quote(quote(path))
        case "NFC" | "NFD":
            return unicodedata.normalize(str(how), path)  # type: ignore[arg-type]
        case "upper":
            return path.upper() if path.upper().casefold() == path.casefold() else path
        case "plus":
            return path.replace(" ", "+")
    return path


@given(st.data(), NAMES)
@settings(max_examples=300, deadline=None)
def test_no_spelling_of_a_local_file_is_taken_for_another_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    base = tmp_path_factory.mktemp("w")
    root = base / "lake" / "t"
    (root / "data").mkdir(parents=True)
    (base / "way").symlink_to(base / "lake")
    (root / "within").symlink_to(root / "data")
    real = root / "data" / name
    real.write_bytes(b"needed")
    way = data.draw(st.sampled_from([f"{root}/data", f"{base}/way/t/data", f"{root}/within", f"{root}/within/../data"]))
    spelled = (
        other_letters(data.draw, other_slashes(data.draw, f"{way}/{name}"))
        if data.draw(st.booleans())
        else f"{way}/{name}"
    )
    spelled = (
        str(data.draw(st.sampled_from(["", "file:", "file://", "FILE://", "File:", "file://localhost"]))) + spelled
    )
    for candidate in (str(real), f"file:{real}", f"file://{real}", f"file:///{real}"):
        found = judged(spelled, candidate, f"file://{root}", refuses=bool(data.draw(st.booleans())))
        assert found is None or found.deletable == ()


@pytest.mark.parametrize(("one", "other"), [("%0é", "%0e\u0301"), ("%ﬀ", "%FF"), ("%250é", "%0%C3%A9"), ("É", "é")])
def test_spellings_that_only_look_like_escapes_in_one_unicode_form_are_the_same_loosely(one: str, other: str) -> None:
    assert loose_path(f"/w/{one}.parquet") == loose_path(f"/w/{other}.parquet")


@given(st.data(), NAMES)
@settings(max_examples=300, deadline=None)
def test_no_spelling_of_a_stored_file_is_taken_for_another_file(data: st.DataObject, name: str) -> None:
    key = f"w/t/data/{name}"
    schemes = st.sampled_from(["s3", "s3a", "s3n", "S3", "S3A"])
    bucket = data.draw(st.sampled_from(["lake", "Lake", "access-point"]))
    spelled = other_letters(data.draw, other_slashes(data.draw, f"/{key}")) if data.draw(st.booleans()) else f"/{key}"
    spelled = (
        f"{data.draw(schemes)}://{bucket}{spelled}{data.draw(st.sampled_from(['', '?versionId=1', '#part', '?a#b']))}"
    )
    candidate = f"{data.draw(schemes)}://lake/{key}"
    found = judged(spelled, candidate, "s3://lake/w/t")
    assert found is None or found.deletable == ()


@given(NAMES, NAMES)
@settings(max_examples=300, deadline=None)
def test_what_is_deleted_is_never_the_needed_file(
    tmp_path_factory: pytest.TempPathFactory, one: str, other: str
) -> None:
    """The store tells cases, accents and escapes apart: names that differ are files that differ."""
    root = tmp_path_factory.mktemp("t")
    for name in (one, other):
        (root / name).write_bytes(name.encode())
    found = judged(f"file://{root}/{one}", f"file://{root}/{other}", f"file://{root}")
    if loose_path(one) != loose_path(other) and not {"?", "#"} & set(one):
        assert found is not None
        assert [file.path for file in found.deletable] == [f"file://{root}/{other}"]
    for file in found.deletable if found else ():
        delete_file(file)
        assert not (root / other).exists()
    assert (root / one).read_bytes() == one.encode()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://a/b/c", "s3a://a/b/c"),
        ("hdfs://n1:8020/b/c", "hdfs://n1/b/c"),
        ("/b//c", "/b/c"),
        ("/b/%63", "/b/c"),
        ("file:/b/c", "/b/c"),
    ],
)
def test_spellings_of_one_file_have_something_in_common(one: str, other: str) -> None:
    assert loose_path(one) == loose_path(other) == "/b/c"


def test_what_no_reader_tells_apart_is_one_path_and_what_a_store_tells_apart_is_two() -> None:
    assert (
        len(
            {
                canonical_path(path)
                for path in ("/a/b", "file:/a/b", "file:///a/b", "file://h/a/b", "FILE:/a//b", "//a/./b/")
            }
        )
        == 1
    )
    assert canonical_path("s3a://b/k") == canonical_path("S3://b/k") == canonical_path("s3n://b/k")
    assert len({canonical_path(f"s3://b/{key}") for key in ("k", "/k", "./k", "K", "k/", "%6B")}) == 6


def test_a_key_with_empty_or_dotted_parts_is_never_deleted() -> None:
    """Clients leave such parts out: asked for `a//b` they would delete `a/b`."""
    needed = NeededFiles("t", ["s3://lake/w"])
    found = needed.judge([listed(f"s3://lake/w/{key}") for key in ("a//b", "a/./b", "a/../b", "//b", "a/b/")])
    assert (found.deletable, found.outside) == ((), 5)
    assert not is_ambiguous_key("s3://lake/w/a b+c#d?e%20")


def test_a_metadata_file_of_a_name_that_the_table_names_elsewhere_stops_all() -> None:
    needed = NeededFiles("t", ["s3://lake/t"])
    needed.need_paths(["s3://mirror/other/metadata/00007-x.metadata.json"])
    with pytest.raises(PathSpellingsDiffer, match="s3://mirror/other/metadata/00007-x"):
        needed.judge([listed("s3://lake/t/data/a.parquet"), listed("s3://lake/t/metadata/00007-x.metadata.json")])


def test_a_file_that_only_a_link_brings_into_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.parquet").touch()
    (tmp_path / "t" / "data").symlink_to(tmp_path / "elsewhere")
    needed = NeededFiles("t", [f"file://{tmp_path}/t"])
    found = needed.judge([listed(f"{tmp_path}/t/data/a.parquet"), listed(f"{tmp_path}/t/../elsewhere/a.parquet")])
    assert (found.deletable, found.outside) == ((), 2)


def test_a_name_that_is_no_text_stays(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff.parquet")
    Path(odd).touch()
    assert NeededFiles("t", [str(tmp_path)]).judge([listed(odd)]).deletable == ()


def test_nothing_else_makes_the_proof(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="only NeededFiles"):
        Deletable(path="/a", size_bytes=0, seal=None)
    with pytest.raises(TypeError, match="only judge_tree"):
        DeletableTree(location="/a", seal=object())
    with pytest.raises(ValueError, match="quarantine"):
        move_back(f"{tmp_path}/a", f"{tmp_path}/b")
    needed = NeededFiles("t", None)
    (free,) = needed.judge([listed(f"{tmp_path}/a")]).deletable
    with pytest.raises(ValueError, match="quarantine"):
        move_aside(free, f"{tmp_path}/b")


def test_a_tree_with_a_place_in_use_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "w" / "t" / "metadata").mkdir(parents=True)
    (tmp_path / "way").symlink_to(tmp_path / "w")
    for place in (f"{tmp_path}/w//t/metadata/1.json", f"file:{tmp_path}/way/t", f"{tmp_path}/w/T/data"):
        with pytest.raises(FolderInUse, match="lies in it"):
            judge_tree(f"file://{tmp_path}/w/t", [place])
    delete_tree(judge_tree(f"file://{tmp_path}/w/t", [f"{tmp_path}/w/t2", f"{tmp_path}/w"]))
    assert not (tmp_path / "w" / "t").exists()


def test_folders_of_one_name_in_two_buckets_are_two() -> None:
    assert loose_folder("s3://raw/lab/events") != loose_folder("s3://curated/lab/events")
    assert may_be_below("s3a://Raw/lab//events/data", "s3://raw/lab/events/")
    assert not may_be_below("s3://raw/lab/events2", "s3://raw/lab/events")


DELETERS = {
    "unlink",
    "rmtree",
    "rmdir",
    "removedirs",
    "delete_dir",
    "delete_dir_contents",
    "delete_root_dir_contents",
    "delete_file",
}
OF_THEIR_OWN_FILES = {
    "runtime/postgres_server.py",
    "runtime/artifacts.py",
    "runtime/directories.py",
    "stack",
    "gateway/executor",
    "lake/files",
    "parquet/sort/external_sort.py",
    "ops/health/warehouse_look.py",
}
"""They delete directories, sockets and temporary files that they made on this machine, or the one file that `doctor`
wrote; no file of the lake."""


def test_no_module_deletes_files_but_by_the_proof() -> None:
    home = Path(thermocline.__file__).parent
    found = []
    for module in sorted(home.rglob("*.py")):
        name = str(module.relative_to(home))
        if any(name == own or name.startswith(f"{own}/") for own in OF_THEIR_OWN_FILES):
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DELETERS:
                found.append(f"{name}:{node.lineno}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "os.remove",
                "shutil.move",
                "os.replace",
                "os.rename",
            ):
                found.append(f"{name}:{node.lineno}")
    assert found == []
