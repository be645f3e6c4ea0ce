"""What a program outside may answer to a bin, and what is refused; the program is a real one, run as a task runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.external_engine import PROGRAM
from tests.unit.bins import Bin, lake_field, read_back

from thermocline.errors import ExternalEngineFailed, OutsideThePlan, ThermoclineError
from thermocline.spark.kernels.external_program import ExternalKernel

SCHEMA = pa.schema([lake_field("id", pa.int64(), 1), lake_field("name", pa.string(), 2)])


@pytest.fixture
def bin(tmp_path: Path) -> Bin:
    made = Bin(tmp_path)
    (tmp_path / "out").mkdir()
    for start in (0, 10):
        ids = list(range(start, start + 10))
        made.add(pa.table([ids, [f"n{id}" for id in ids]], schema=SCHEMA))
    return made


def run(bin: Bin, manner: str) -> pa.Table:
    kernel = ExternalKernel(
        command=f"{sys.executable} {PROGRAM} '{manner}'",
        bounds={"protected_snapshots": {"7": "pin"}, "floor_holder": "pin"},
    )
    return read_back(kernel(bin.task(), bin.registered.append, lambda _read, _written: None))


@pytest.mark.conforms("M-003")
@pytest.mark.parametrize(
    ("manner", "error", "sentence"),
    [
        ("an input", OutsideThePlan, "outside its plan"),
        ("twice", OutsideThePlan, "named a file twice"),
        ("without field ids", OutsideThePlan, r"column id \(field id 1\) is there 0 times"),
        ("loses a row", OutsideThePlan, "has 20 rows, and the external engine wrote 19"),
        ("a changed value", OutsideThePlan, "other values for bin 7, in column name"),
        ("fails", ExternalEngineFailed, "failed on bin 7 with code 1: I would rather not"),
        ("above the bounds", ExternalEngineFailed, "held by pin"),
    ],
)
def test_an_answer_outside_the_plan_is_refused(
    bin: Bin, manner: str, error: type[ThermoclineError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        run(bin, manner)


def test_an_honest_answer_holds_every_row_and_its_files_were_registered(bin: Bin) -> None:
    assert run(bin, "honest").column("id").to_pylist() == list(range(20))
    assert len(bin.registered) >= 1
