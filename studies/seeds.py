"""Which drawings a study is asked for."""


def parse_seeds(text: str) -> range:
    """Seeds written as a-b, both included, or as one number.

    >>> list(parse_seeds("20-22")), list(parse_seeds("7"))
    ([20, 21, 22], [7])
    """
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
