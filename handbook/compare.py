"""Whether a command printed what a page shows: words alike, numbers near, `...` for anything."""

import re

_NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])|(?<=\D)\d+\.\d+")
_HASH = re.compile(r"\b[0-9a-f]{12,}\b")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|\+00:00)?)?\b")
_FRAME = re.compile(r"[━┃┏┓┗┛┡┩╇┳┻─│└┘┴┬├┤┼╰╯╭╮┠┨]+")


def same(shown: str, printed: str, *, near: float = 0.02) -> bool:
    """Whether a text is what was shown.

    >>> same("TA 45.0 | 0\\n...\\nwritten", "TA  45.1 | 0\\nsome line\\nwritten")
    True
    >>> same("TA 45.0", "TA 55.0")
    False
    >>> same("48 rows", "forty rows")
    False
    """
    return _lines(_words(shown), _words(printed), near)


def _words(text: str) -> list[str]:
    lines = (_FRAME.sub(" ", line).split() for line in text.splitlines())
    # a terminal breaks lines where it is narrow: what was said counts, not where it was broken
    return [" ".join(line) for line in lines if line]


def _lines(shown: list[str], printed: list[str], near: float) -> bool:
    """Texts between lines of `...`, found in order."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    said = " ".join(printed)
    if len(parts) == 1:
        return _alike(" ".join(parts[0]), said, near)
    patterns = [" ".join(part) for part in parts]
    return _alike(" ... ".join(patterns).strip(), said, near)


def _alike(shown: str, said: str, near: float) -> bool:
    """Word patterns with numbers taken out, then the numbers one by one."""
    marks = [_DATE, _HASH, _NUMBER]
    pattern = ""
    place = 0
    wanted: list[float | None] = []
    for start, end, kind in _tokens(shown, marks):
        pattern += _quote(shown[place:start]) + (
            f"({_NUMBERED})" if kind is _NUMBER else kind.pattern
        )
        if kind is _NUMBER:
            wanted.append(_value(shown[start:end]))
        place = end
    pattern += _quote(shown[place:])
    found = re.fullmatch(pattern, said, re.S)
    if found is None:
        return False
    return all(_near(a, _value(b), near) for a, b in zip(wanted, found.groups(), strict=True))


_NUMBERED = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"


def _tokens(text: str, marks: list[re.Pattern[str]]) -> list[tuple[int, int, re.Pattern[str]]]:
    found: list[tuple[int, int, re.Pattern[str]]] = []
    for mark in marks:
        for one in mark.finditer(text):
            if all(one.end() <= start or one.start() >= end for start, end, _ in found):
                found.append((one.start(), one.end(), mark))
    return sorted(found, key=lambda token: token[0])


def _quote(text: str) -> str:
    """Text as a pattern: `...` is anything, a blank any blanks or none beside a frame."""
    return (
        ".*?".join(re.sub(r"(?:\\ )+", r"\\s+", re.escape(part)) for part in text.split("..."))
        .replace(r"\s+.*?", r"\s*.*?")
        .replace(r".*?\s+", r".*?\s*")
    )


def _value(text: str | None) -> float:
    return float((text or "nan").replace(",", ""))


def _near(shown: float | None, said: float, near: float) -> bool:
    return shown is not None and abs(shown - said) <= near * max(abs(shown), abs(said)) + 0.011
