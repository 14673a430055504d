"""knowledge.toml is read strictly, and what one reader refuses the other does too."""

import pytest

from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge import Knowledge

TABLE = "ash,then\n> 5,a\n"
PLAIN = 'classes = ["a", "b"]\n[[features]]\nname = "ash"\nlow = 0\nhigh = 9\n'


def files(more: str, first: str = "") -> dict[str, str]:
    return {"knowledge.toml": first + PLAIN + more, "t.csv": TABLE}


def packed(more: str, first: str = "") -> dict[str, bytes]:
    return {name: text.encode() for name, text in files(more, first).items()}


def test_what_stands_in_the_file_is_read_by_both():
    more = '[[range.sources]]\ntable = "t.csv"\nhit = "union"\n'
    assert read_knowledge(files(more)).range.sources[0].policy == "union"
    assert Knowledge.read(packed(more)).range is not None


# a second kind, or a key that says nothing
ODD = [
    '[[range.sources]]\ntable = "t.csv"\nconformal = {alpha = 0.1}\n',
    '[[range.sources]]\ntable = "t.csv"\nlower = "ash"\n',
    '[[range.sources]]\ntable = "t.csv"\nedges = [1]\n',
    '[[range.sources]]\ntable = "t.csv"\nhitt = "union"\n',
    '[[range.sources]]\ntable = "t.csv"\nsheet = "rules"\n',
    '[[range.sources]]\ntable = "t.csv"\nhit = "any"\n',
    '[[range.sources]]\nformula = "ash"\nedges = [1]\n',
    '[[predict.sources]]\nlower = "ash"\nedges = [1]\n',
    "[[predict.sources]]\nedges = [1]\n",
    '[[predict.sources]]\ntable = "t.csv"\n[predict]\ncombined = "first"\n',
    '[range]\nempty = "none"\n',
    "[predict]\nspread = 1.0\n",
    "[target]\nlower = 0\nupper = 1\n",
    '[trust]\nvalue = 0.5\nwhere = "ash > 1"\n',
    '[[shape.sources]]\nfeature = "ash"\neffect = "helps"\n',
]
AVERAGE = '[[predict.sources]]\ntable = "t.csv"\n' * 2 + '[predict]\ncombine = "average"\n'
GRADED = '[[predict.sources]]\nformula = "ash"\n'


@pytest.mark.parametrize(
    ("first", "more"),
    [
        *((f"{key} = {value}\n", "") for value in ("1.5", "-0.1", "nan", "inf")
          for key in ("trust", "reliance", "least_trust")),
        ("", "[trust]\nvalue = 2.0\n"),
        ("", '[trust]\nregions = [{where = "ash > 1", trust = 2.0}]\n'),
        ("least_trust = 0.2\n", '[trust]\nregions = [{where = "ash > 1", trust = 0.1}]\n'),
        *(("", f"{AVERAGE}weights = {weights}\n")
          for weights in ("[-1, 2]", "[0, 1]", "[nan, 1]", "[1e300, 1e300]", "[1]", "[1, 1, 1]")),
        *(("", f"{GRADED}edges = {edges}\n") for edges in ("[]", "[nan]", "[1, 2]", "[inf]")),
        *(("", f"{GRADED}edges = [1]\nspread = {spread}\n") for spread in ("-1", "0", "nan")),
        ("", '[[range.sources]]\nlower = "ash"\nedges = [3, 4]\n'),
        ("", '[[features]]\nname = "ash"\n'),
        *(("", more) for more in ODD),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_by_both(first, more):
    """The kernel once read some, and its graphs were certified with probabilities above 1."""
    with pytest.raises(KnowledgeError):
        read_knowledge(files(more, first))
    with pytest.raises(FedloreError):
        Knowledge.read(packed(more, first))
