"""Generated pages of the documentation are the ones that the declarations give."""

from __future__ import annotations

from pathlib import Path

import pytest

from thermocline.cli.reference import PAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_current(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), "run `make docs`"
