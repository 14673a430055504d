"""Federated learning that knows what your experts know."""

from importlib import import_module
from typing import TYPE_CHECKING

from .version import __version__ as __version__

if TYPE_CHECKING:  # what editors and type checkers see; `_HOMES` says the same for the run
    from .algorithms import Alone as Alone
    from .algorithms import Apfl as Apfl
    from .algorithms import Ditto as Ditto
    from .algorithms import FedAvg as FedAvg
    from .algorithms import FedOpt as FedOpt
    from .algorithms import FedPer as FedPer
    from .algorithms import Plan as Plan
    from .algorithms import Scaffnew as Scaffnew
    from .algorithms import Scaffold as Scaffold
    from .answers import HEARD as HEARD
    from .answers import Bins as Bins
    from .answers import Line as Line
    from .answers import Measured as Measured
    from .answers import Sets as Sets
    from .bundle import bundle_of as bundle_of
    from .bundle import load as load
    from .bundle import read_bundle as read_bundle
    from .bundle import write_bundle as write_bundle
    from .core.examples import Examples as Examples
    from .core.inject import inject as inject
    from .core.nets import lenet5 as lenet5
    from .core.nets import logistic as logistic
    from .core.nets import mlp as mlp
    from .engine import Fitted as Fitted
    from .engine import federate as federate
    from .engine import fit as fit
    from .engine.lore import SearchSpace as SearchSpace
    from .engine.tuning import Tuning as Tuning
    from .errors import ConfigError as ConfigError
    from .errors import FedloreError as FedloreError
    from .errors import KnowledgeError as KnowledgeError
    from .knowledge import Knowledge as Knowledge
    from .knowledge import Lookup as Lookup
    from .knowledge import Mask as Mask
    from .knowledge import MaxPool as MaxPool
    from .knowledge import Schema as Schema
    from .knowledge.intervals import Band as Band
    from .knowledge.intervals import Between as Between
    from .models import Classification as Classification
    from .models import Client as Client
    from .models import NumberClient as NumberClient
    from .models import Personal as Personal
    from .models import PersonalRegressor as PersonalRegressor
    from .models import Regression as Regression
    from .models import with_knowledge as with_knowledge
    from .privacy import Dp as Dp
    from .privacy import Privacy as Privacy

#: Where each public name lives. A name is loaded on its first use, so that `import fedlore`
#: waits for nothing.
_HOMES = {
    "algorithms": "Alone Apfl Ditto FedAvg FedOpt FedPer Plan Scaffnew Scaffold",
    "answers": "Bins HEARD Line Measured Sets",
    "bundle": "bundle_of load read_bundle write_bundle",
    "core.examples": "Examples",
    "core.inject": "inject",
    "core.nets": "lenet5 logistic mlp",
    "engine": "Fitted federate fit",
    "engine.lore": "SearchSpace",
    "engine.tuning": "Tuning",
    "errors": "ConfigError FedloreError KnowledgeError",
    "knowledge": "Knowledge Lookup Mask MaxPool Schema",
    "knowledge.intervals": "Band Between",
    "models": "Classification Client NumberClient Personal PersonalRegressor Regression "
    "with_knowledge",
    "privacy": "Dp Privacy",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'fedlore' has no attribute '{name}'")
    found: object = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = found  # asked for once
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
