"""Old names of fields still work, and say what they are called now."""

import pytest

from fedlore import Knowledge
from fedlore.knowledge.numbers.numbers import Numbers


def expert(x):
    return x


def test_old_names_make_and_read_the_same_knowledge():
    with pytest.warns(DeprecationWarning, match="pkm is called 'prediction'"):
        known = Knowledge(pkm=expert, trust=0.5)
    assert known == Knowledge(prediction=expert, trust=0.5)
    with pytest.warns(DeprecationWarning, match="rkm is called 'range'"):
        assert known.rkm is None
    with pytest.warns(DeprecationWarning, match="point is called 'prediction'"):
        assert Numbers(point=expert).prediction is expert


def test_both_names_at_once_are_refused():
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(TypeError, match="'rely' is the old name of 'reliance'"),
    ):
        Knowledge(rely=0.1, reliance=0.2)


def test_a_file_with_the_old_key_is_read_as_before(tmp_path):
    text = 'rely = 0.25\nclasses = ["a", "b"]\n[[features]]\nname = "ash"\n'
    (tmp_path / "knowledge.toml").write_text("\N{BYTE ORDER MARK}" + text)
    known = Knowledge.read(tmp_path / "knowledge.toml")
    assert known.reliance == known.trust_at_prediction == 0.25
    known.write(tmp_path / "knowledge.toml")
    assert "reliance = 0.25" in (tmp_path / "knowledge.toml").read_text()
