"""Every error that fedlore can say, with a code and what to do.

`python -m handbook.errors` gives a code to each sentence of the source that has none. A sentence
that was reworded keeps its code; the code of one that is gone is not given out again.
"""

import ast
import difflib
import functools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fedlore.errors.listed import CODES
from fedlore.errors.sentences import GAP, SourceText

from .keys import escape
from .remedies import LETTERS, remedy

PACKAGE = CODES.parent.parent
#: Stands alone on purpose: what it finds is a verdict, and no error of fedlore.
APART = ("checker/", "kernel/")
ALIKE = 0.75  # of a sentence and what it was before, as difflib counts


@dataclass(frozen=True, order=True)
class Said:
    """A sentence, and where it is first said."""

    sentence: str
    kind: str  # the class of the error
    path: str  # below src/fedlore

    @property
    def letter(self) -> str:
        return LETTERS[re.split(r"[/.]", self.path)[0]][0]


@functools.cache
def sentences() -> tuple[Said, ...]:
    """What every error of the package says, in the order of the files."""
    paths = sorted(PACKAGE.rglob("*.py"))
    files = {
        p.relative_to(PACKAGE).as_posix(): SourceText(p.read_text(encoding="utf-8")) for p in paths
    }
    found: dict[str, Said] = {}
    kinds = error_classes(file.tree for name, file in files.items() if not name.startswith(APART))
    for name, file in files.items():
        if name.startswith((*APART, "errors/")):
            continue
        calls = sorted(file.calls(), key=lambda one: one[0].lineno)
        for call, called in calls:
            if called in kinds:
                sentence = file.sentence(call)
                found.setdefault(sentence, Said(sentence, called, name))
    return tuple(found.values())


def error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """FedloreError and all classes below it, by name."""
    above: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = {base.id for base in node.bases if isinstance(base, ast.Name)}
                above.setdefault(node.name, set()).update(names)
    found = {"FedloreError"}
    while more := {name for name, bases in above.items() if bases & found} - found:
        found |= more
    return found


def kept() -> dict[str, dict]:
    """The codes as they were given out: `codes` by code, `last` by letter."""
    return json.loads(CODES.read_text(encoding="utf-8")) if CODES.exists() else _NOTHING


_NOTHING: dict[str, dict] = {"codes": {}, "last": {}}


def assign(said: Iterable[Said], before: dict[str, dict]) -> dict[str, dict]:
    """The list with a code for every sentence, and without those that nobody says any more.

    >>> one = Said("no rows", "FedloreError", "data/rows/table.py")
    >>> assign([one], {"codes": {}, "last": {"D": 4}})["codes"]
    {'FL-D005': 'no rows'}
    """
    said, last = list(said), dict(before["last"])
    now = {one.sentence for one in said}
    codes = {sentence: code for code, sentence in before["codes"].items() if sentence in now}
    gone = {sentence: code for code, sentence in before["codes"].items() if sentence not in now}
    for one in said:
        if one.sentence in codes:
            continue
        near = difflib.get_close_matches(one.sentence, gone, n=1, cutoff=ALIKE)
        if near:
            codes[one.sentence] = gone.pop(near[0])
            continue
        last[one.letter] = last.get(one.letter, 0) + 1
        codes[one.sentence] = f"FL-{one.letter}{last[one.letter]:03}"
    listed = sorted((code, sentence) for sentence, code in codes.items())
    return {"last": dict(sorted(last.items())), "codes": dict(listed)}


def error_pages() -> dict[str, str]:
    """Path -> text: a page that lists the rooms, and one for each."""
    codes = {sentence: code for code, sentence in kept()["codes"].items()}
    by_letter: dict[str, list[Said]] = {}
    for one in sentences():
        if one.sentence in codes:
            by_letter.setdefault(codes[one.sentence][3], []).append(one)
    names = {letter: (room, about) for room, (letter, about) in LETTERS.items()}
    rows = []
    pages = {}
    for letter, said in sorted(by_letter.items()):
        room, about = names[letter]
        rows.append(f"| [FL-{letter}](errors/{room}.md) | {about} | {len(said)} |")
        pages[f"reference/errors/{room}.md"] = _room_page(letter, about, said, codes)
    count = sum(map(len, by_letter.values()))
    pages["reference/errors.md"] = (
        f"# Errors\n\nfedlore has {count} sentences for what cannot be used. Each has a code, "
        "which stands at its end on the command line and is the attribute `code` of the exception; "
        f"the letter is the part of fedlore that says it. `{GAP}` stands for the value of the "
        "moment. A reworded sentence keeps its code, and a code is never given to another.\n\n"
        "| code | about | sentences |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "An error that passes on another's sentence has the code of that one. Findings of `fedlore "
        "lint` have names of their own; a fault of fedlore itself has none and writes a file to "
        "report it with.\n"
    )
    return pages


def _room_page(letter: str, about: str, said: list[Said], codes: dict[str, str]) -> str:
    lines = [f"# FL-{letter}: {about[0].lower() + about[1:]}\n"]
    by_remedy: dict[str, list[Said]] = {}
    for one in said:
        by_remedy.setdefault(remedy(one.path), []).append(one)
    for number, (what, some) in enumerate(by_remedy.items(), 1):
        parts = sorted({one.path.removesuffix(".py") for one in some})
        shown = ", ".join(f"`{part}`" for part in parts[:6]) + (" and more" if parts[6:] else "")
        lines += [f"## {number}. {_heading(parts)}\n", f"What to do: {what}\n", f"From {shown}.\n"]
        lines.append("| code | sentence | raised as |\n|---|---|---|")
        rows = sorted((codes[one.sentence], one) for one in some)
        lines += [f"| {code} | {escape(one.sentence)} | `{one.kind}` |" for code, one in rows]
        lines.append("")
    return "\n".join(lines)


def _heading(parts: list[str]) -> str:
    folders = sorted({part.rpartition("/")[0] or part for part in parts})
    return parts[0] if len(parts) == 1 else ", ".join(folders[:3])


def main() -> None:
    """Write the list anew, and say what changed."""
    before = kept()
    after = assign(sentences(), before)
    new, gone = (set(a["codes"]) - set(b["codes"]) for a, b in ((after, before), (before, after)))
    CODES.write_text(json.dumps(after, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{len(after['codes'])} errors, {len(new)} new codes, {len(gone)} given up")


if __name__ == "__main__":
    main()
