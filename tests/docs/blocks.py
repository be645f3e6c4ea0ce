"""The fenced blocks of README.md and docs/*.md, and how a page says that one is not run.

A comment on the line above the fence, which no reader of the page sees, gives the reason:

    <!-- not run: needs a second machine -->

`text` blocks are pictures and output. Under `<!-- output -->` a text block is what the block before it prints: `…`
stands for anything, and so does every number of twelve digits or more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
COMMANDS = ("sh", "sql", "python")
FILES = ("toml", "ini", "properties")
"""The first line of such a block names the file: `# stack/thermocline.toml`."""
LANGUAGES = (*COMMANDS, *FILES, "text")

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_OUTPUT = "<!-- output -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page; `line` is where its fence opens."""

    page: str
    line: int
    language: str
    text: str
    why_not_run: str | None = None
    is_output: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.why_not_run is None and (self.language != "text" or self.is_output)

    @property
    def file_name(self) -> str | None:
        """The file that the block is the content of."""
        first = self.text.partition("\n")[0]
        return first.removeprefix("# ") if self.language in FILES and re.fullmatch(r"# [\w./@-]+", first) else None


def read_blocks(page: str, text: str | None = None) -> tuple[Block, ...]:
    """The blocks of a page, in order."""
    lines = ((ROOT / page).read_text(encoding="utf-8") if text is None else text).splitlines()
    blocks, opened = [], None
    for number, line in enumerate(lines, 1):
        if opened is None and (fence := _FENCE.match(line)):
            opened = (number, fence.group(1))
        elif opened is not None and line == "```":
            at, language = opened
            above = lines[at - 2] if at > 1 else ""
            reason = _NOT_RUN.match(above)
            blocks.append(
                Block(
                    page=page,
                    line=at,
                    language=language,
                    text="\n".join(lines[at : number - 1]) + "\n",
                    why_not_run=reason.group(1) if reason else None,
                    is_output=above == _OUTPUT,
                )
            )
            opened = None
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: the block does not end")
    return tuple(blocks)


def matches_output(expected: str, printed: str) -> bool:
    """Whether the lines of a text block stand in this order, without others between them, in what was printed."""
    # Programs indent what they print, align it by blanks or tabs, and fill lines up.
    lines = (r"[ \t]+".join(map(re.escape, line.split())) for line in expected.strip().splitlines())
    lines = (rf"[ \t]*{line.replace('…', '.*')}[ \t]*" for line in lines)
    return re.search(re.sub(r"\d{12,}", r"\\d+", "\n".join(lines)), printed) is not None
