"""The sums that SCAFFOLD and Scaffnew live on, in both engines."""

from fedlore.testing.algorithm import ENGINE_LAWS

from .lists import each_engine, each_law


@each_law(ENGINE_LAWS)
@each_engine
def test_engines(engine, law):
    law(engine)
