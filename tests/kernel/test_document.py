"""knowledge.toml is read strictly, and what one reader refuses the other does too."""

import pytest

from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge import Knowledge

TABLE = "ash,then\n> 5,a\n"
PLAIN = 'classes = ["a", "b"]\n[[features]]\nname = "ash"\nlow = 0\nhigh = 9\n'


def files(more: str) -> dict[str, str]:
    return {"knowledge.toml": PLAIN + more, "t.csv": TABLE}


def packed(more: str) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files(more).items()}


def test_what_stands_in_the_file_is_read_by_both():
    more = '[[range.sources]]\ntable = "t.csv"\nhit = "union"\n'
    assert read_knowledge(files(more)).range.sources[0].policy == "union"
    assert Knowledge.read(packed(more)).range is not None


@pytest.mark.parametrize(
    "more",
    [
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
    ],
)
def test_a_second_kind_and_a_key_that_says_nothing_are_refused_by_both(more):
    with pytest.raises(KnowledgeError):
        read_knowledge(files(more))
    with pytest.raises(FedloreError):
        Knowledge.read(packed(more))
