"""What doctor says of a database."""

from __future__ import annotations

from contextlib import closing

from thermocline.ops.doctor import examine
from thermocline.pg import connect
from thermocline.settings import Settings


def test_the_event_triggers_that_follow_columns_are_looked_for(database: str) -> None:
    def said() -> tuple[str, str]:
        finding = next(found for found in examine(Settings(dsn=database)) if found.check == "event triggers")
        return finding.verdict, finding.seen

    assert said() == ("ok", "columns are followed at once")
    with closing(connect(database, autocommit=True)) as conn:
        conn.execute("alter event trigger thermocline_alter_end disable")
    assert said() == ("warning", "columns are followed by the next cycle")
