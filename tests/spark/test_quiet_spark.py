"""Nothing that Java, Spark or a task prints reaches the terminal; it is in Spark's log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.spark_session import SparkPlan, open_spark_session

folder = Path(sys.argv[1])
catalog = {"type": "hadoop", "warehouse": str(folder / "lake")}
plan = SparkPlan(
    catalog=catalog, warehouse=str(folder / "lake"), master="local[2]", log_path=folder / "logs" / "spark.log"
)
spark = open_spark_session(plan)

def loud(task, _):
    print("a library of a task", file=sys.stderr)
    return task

print(sorted(run_tasks(spark, [1, 2], loud, "Shouting", lambda completed: None)))
spark.stop()
"""


def test_a_session_and_its_tasks_print_nothing_and_their_log_has_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2]\n", "")
    log = (tmp_path / "logs" / "spark.log").read_text(encoding="utf-8")
    assert "a library of a task" in log
    assert "NativeCodeLoader" not in log
