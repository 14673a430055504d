"""What stands beside the paper's approaches on a number: each site's own best, and lore."""

from collections.abc import Iterator, Sequence

from fedlore import Bins, PersonalRegressor
from fedlore.core.history import Row
from fedlore.engine import Fitted, NumberClient, Training
from fedlore.engine.lore import train_lore
from fedlore.knowledge.numbers import all_scores, region_scores
from fedlore.personal.own import NumberMember, own_numbers

from .settings import NumberSetting

LORE, OWN_BEST = "lore", "own best"
_MIXTURE = "mixture"  # whose weights the rows of lore are scored with


def own_best_rows(clients: Sequence[NumberClient], bins: Bins, seed: int) -> Iterator[Row]:
    """Each site's own best model, chosen by cross-validation on its own rows, inside S(x)."""
    for client in clients:
        assert client.test is not None
        known = client.knowledge.examine(client.data, bins)
        best = own_numbers(known, seed=seed, site=client.id).best
        test = client.knowledge.examine(client.test, bins, training=False)
        assert test.y is not None and isinstance(best.member, NumberMember)
        yield {
            "approach": OWN_BEST,
            "model": "own",
            "client": client.id,
            "trust": 0.0,
            **all_scores(best.member.number(test), test.y, test.sets),
            "coverage": None,
            "width": None,
            "chosen": best.member.name,
        }


def number_lore_rows(
    clients: Sequence[NumberClient], setting: NumberSetting, level: float
) -> Iterator[Row]:
    """The recipe: trials and votes, one training, and a mixture at every site."""
    fitted: Fitted[PersonalRegressor] = train_lore(
        clients,
        Training(plan=setting.plan, rounds=setting.rounds, seed=setting.seed, workers=1),
        bins=setting.bins,
        hidden=setting.hidden,
    )
    chosen = [str(row["recipe"]) for row in fitted.history if "recipe" in row][-1]
    for client in clients:
        assert client.test is not None
        test = client.knowledge.examine(client.test, setting.bins, training=False)
        assert test.y is not None
        regressor = fitted.model(client.id)
        table = fitted.tables.get(client.id)
        weights = {} if table is None else table.weights
        yield {
            "approach": LORE,
            "model": _MIXTURE,
            "client": client.id,
            "trust": regressor.reliance,
            **all_scores(regressor.predict(test), test.y, test.sets),
            **region_scores(regressor.distribution(test).region(level), test.y),
            "chosen": chosen,
            "weights": "; ".join(f"{name} {w:.3f}" for name, w in weights.items()),
        }
