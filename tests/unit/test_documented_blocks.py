"""Every fenced block of README.md and docs/*.md is run by a test, or says in the page why it is not."""

from __future__ import annotations

import pytest
from tests.docs.blocks import COMMANDS, FILES, LANGUAGES, PAGES, Block, matches_output, read_blocks
from tests.docs.pages import FOLLOWED

ALL = tuple(block for page in PAGES for block in read_blocks(page))


def test_every_page_with_a_block_that_is_not_marked_is_followed_by_a_test() -> None:
    assert {block.page for block in ALL if block.is_run} == set(FOLLOWED)


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.place)
def test_a_block_names_its_language_and_the_file_that_it_is_the_content_of(block: Block) -> None:
    assert block.language in LANGUAGES, "commands are sh, sql or python; pictures and output are text"
    if block.language in FILES and block.is_run:
        assert block.file_name is not None, "the first line names the file: # thermocline.toml"


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.place)
def test_output_follows_a_command_that_is_run(block: Block) -> None:
    if block.is_output:
        before = [other for other in read_blocks(block.page) if other.line < block.line and other.language != "text"]
        assert before, "nothing stands before it"
        assert before[-1].is_run
        assert before[-1].language in COMMANDS


def test_a_mark_is_read_from_the_line_above_the_fence() -> None:
    page = "a\n<!-- not run: needs a second machine -->\n```sh\nls\n```\n"
    page += "```sql\nselect 1\n```\n<!-- output -->\n```text\n1\n```\n"
    marked, unmarked, output = read_blocks("page.md", page)
    assert (marked.why_not_run, marked.is_run, marked.text) == ("needs a second machine", False, "ls\n")
    assert (unmarked.why_not_run, unmarked.is_run, unmarked.line) == (None, True, 6)
    assert (output.is_output, output.is_run) == (True, True)


def test_output_matches_but_for_dots_and_long_numbers() -> None:
    printed = "head\na  1 \nS = 6214783941000000000, at /tmp/x\ntail\n"
    assert matches_output("a  1\nS = 5928286927268899283, at …\n", printed)
    assert not matches_output("a  2\nS = 5928286927268899283, at …\n", printed)
    assert not matches_output("a  1\ntail\n", printed)
