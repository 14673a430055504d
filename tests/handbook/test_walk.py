"""Pages do what they show: their commands are copied, run in order, and compared."""

import pytest

from handbook.blocks import Block, pages_to_walk, read_blocks, read_commands
from handbook.compare import same
from handbook.extras import missing_extras
from handbook.pages import ROOT
from handbook.recording import SCREEN, SHOWN, screen_lines
from handbook.walk import rewrite, walk_page
from studies.front import accuracies, promises

DOCS = ROOT / "docs"
PAGES = pages_to_walk(DOCS)

PAGE = """# A page

<!-- setup: echo 1 > hidden.txt -->
<!-- file: numbers.txt -->
```text
2
3
```

```console
$ cat hidden.txt \\
    numbers.txt
1
2.001
3
$ echo done
done
```

<!-- python:
y = 20
-->

```python
x = y + 2
print(x)
```

```text
22
```

<!-- not run: 2026-11-16, make bench -->
```console
$ false
```

```text
no output of anything
```
"""


def test_the_blocks_of_a_page():
    blocks = read_blocks(PAGE)
    kinds = ["setup", "file", "console", "hidden", "python", "printed", "skipped"]
    assert [block.kind for block in blocks] == kinds
    assert blocks[1] == Block("file", "2\n3\n", 6, "numbers.txt")
    commands = read_commands(blocks[2])
    assert [c.text for c in commands] == ["cat hidden.txt numbers.txt", "echo done"]
    assert (
        commands[0].printed == "1\n2.001\n3" and PAGE.splitlines()[commands[0].line - 1][0] == "$"
    )
    assert sum(block.counts for block in blocks) == 3


def test_what_is_not_run_needs_a_date():
    with pytest.raises(ValueError, match="needs a date"):
        read_blocks("<!-- not run: later -->\n```console\n$ x\n```\n")


def test_a_page_that_is_right_has_no_differences(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    assert walk_page(tmp_path / "page.md", tmp_path / "work").differences == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("2.001", "2.5"), ("\ndone", "\ngone"), ("22\n", "23\n"), ("echo done", "exit 2")],
)
def test_a_page_that_is_wrong_is_found_out_and_mended(tmp_path, old, new):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(old, new))
    walk = walk_page(page, tmp_path / "work")
    assert len(walk.differences) == 1
    if new != "exit 2":
        rewrite(page, walk)
        assert walk_page(page, tmp_path / "again").differences == []


@pytest.mark.parametrize(
    ("shown", "said", "alike"),
    [
        ("┃ a ┃ 1.00 ┃", "│ a │ 1.005 │", True),
        ("took 3 s", "took 30 s", False),
        ("first\n...\nlast", "first\nx\ny\nlast", True),
        ("first\n...\nlast", "first\nx\ny", False),
        ("sha 774b90c334f257e5", "sha 0123456789abcdef", True),
        ("on 2026-11-16", "on 2027-01-01", True),
        ("3 sites", "3 site", False),
        ("", "something", False),
    ],
)
def test_words_are_the_same_and_numbers_near(shown, said, alike):
    assert same(shown, said) is alike


def test_extras_that_a_page_installs_exist():
    assert missing_extras(["install", "fedlore[serve,plot]"]) == []
    assert missing_extras(["install", "fedlore[bundle,plot]"]) == ["bundle"]


def test_at_most_a_tenth_of_the_blocks_is_skipped():
    blocks = [b for page in PAGES for b in read_blocks(page.read_text()) if b.counts]
    skipped = [block for block in blocks if block.kind == "skipped"]
    assert len(skipped) <= len(blocks) / 10


def test_the_readme_tells_what_the_kept_results_tell():
    text = (ROOT / "README.md").read_text()
    found = accuracies()
    for name in ("lore", "local best", "FLwKM"):
        assert f"{found[name].mean:.1f} %" in text, "README.md: run python -m studies.front"
    assert {"lore 1, raw", "safe", "expected"} == set(promises())


def test_the_recording_shows_what_the_page_of_the_case_prints():
    shown = SCREEN.read_text()
    typed = [line for kind, line in screen_lines() if kind == "typed"]
    assert len(typed) == len(SHOWN)
    for line in typed:
        words = line.replace(" ", "&#160;").replace("'", "&#x27;")
        assert words in shown, "python -m handbook.recording draws it again"
    assert "@font-face" not in shown and "prefers-reduced-motion" in shown


def test_the_first_lesson_of_the_expert_begins_as_it_says(tmp_path):
    assert walk_page(DOCS / "learn" / "expert.md", tmp_path / "work", first=3).differences == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what other packages warn of is not ours
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_block_does_what_the_page_shows(page, tmp_path, shared):
    found = walk_page(page, tmp_path / "work", shared=shared).differences
    assert not found, "\n\n".join(map(str, found))
