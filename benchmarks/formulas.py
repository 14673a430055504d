"""Formulas of ten operations over 100,000 rows, against the same line of numpy, in one run.

The numpy lines are what one would write by hand, without blocks; they neither check the columns nor
keep undefined values apart. They are timed on the same rows, and on columns that were laid out
beforehand, which is their best case. numexpr gets the latter, where it is installed.
"""

import argparse
import importlib
import time
from collections.abc import Callable

import numpy as np
import torch
from setting import machine, write_csv

from fedlore.core.rng import stream
from fedlore.kernel.schema import name_columns
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula

NAMES = ("ro", "mf", "mbi", "vm", "inerts", "ash")
CLASSES = tuple(str(grade) for grade in range(20))
EDGES = tuple(float(edge) for edge in range(32, 70, 2))
# ten operations each; the same text is Python over numpy columns but for the names of functions
FORMULAS = {
    "linear": "133.8 - 15.56*mbi - 3.1*vm + 8.5*mf + 0.22*inerts - ash - ro",
    "logarithm": "133.8 - 15.56*mbi - 3.1*vm + 8.5*log10(mf) + 0.22*inerts + ash",
    "powers": "56.9 - 6.86*mbi**2 + 11.47*ro - mf**0.25 + exp(-ash/10) - vm",
    "cases": "where(vm > 28 and ash < 12, 100 - 2*vm, 80 - vm) + max(ro, 1) - min(mbi, 3)",
}


def by_hand(columns: dict[str, np.ndarray]) -> dict[str, Callable[[], np.ndarray]]:
    """The formulas above as numpy."""
    ro, mf, mbi, vm, inerts, ash = (columns[name] for name in NAMES)
    return {
        "linear": lambda: 133.8 - 15.56 * mbi - 3.1 * vm + 8.5 * mf + 0.22 * inerts - ash - ro,
        "logarithm": lambda: (
            133.8 - 15.56 * mbi - 3.1 * vm + 8.5 * np.log10(mf) + 0.22 * inerts + ash
        ),
        "powers": lambda: 56.9 - 6.86 * mbi**2 + 11.47 * ro - mf**0.25 + np.exp(-ash / 10) - vm,
        "cases": lambda: (
            np.where((vm > 28) & (ash < 12), 100 - 2 * vm, 80 - vm)
            + np.maximum(ro, 1)
            - np.minimum(mbi, 3)
        ),
    }


def numexpr_of(columns: dict[str, np.ndarray]) -> dict[str, Callable[[], np.ndarray]]:
    """The formulas above in numexpr on one thread; nothing where it is not installed."""
    try:
        numexpr = importlib.import_module("numexpr")
    except ImportError:
        return {}
    numexpr.set_num_threads(1)
    texts = dict(FORMULAS)
    # numexpr has no min and max of two values
    texts["cases"] = (
        "where((vm > 28) & (ash < 12), 100 - 2*vm, 80 - vm) + where(ro > 1, ro, 1)"
        " - where(mbi < 3, mbi, 3)"
    )
    return {
        name: (lambda text=text: numexpr.evaluate(text, local_dict=columns))
        for name, text in texts.items()
    }


def milliseconds(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest time of each call, which other work on the machine disturbs least.

    The calls take turns, so that all meet the same weather.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: min(some) for name, some in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--out", default="benchmarks/results/formulas.csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    schema = name_columns(NAMES, CLASSES)
    where = {**machine(), "numpy": np.__version__}
    rows: list[dict[str, object]] = []
    for dtype in (torch.float32, torch.float64):
        x = 0.5 + 20 * torch.rand(options.rows, len(NAMES), generator=stream("bench"), dtype=dtype)
        views = {name: x[:, i].numpy() for i, name in enumerate(NAMES)}
        columns = {name: np.ascontiguousarray(view) for name, view in views.items()}
        hand, best, fast = by_hand(views), by_hand(columns), numexpr_of(columns)
        for name, text in FORMULAS.items():
            formula = Formula.parse(text, schema)
            graded = GradedFormula(formula, EDGES)
            band = FormulaRange(
                Formula.parse(f"{text} - 4", schema), Formula.parse(f"{text} + 4", schema), EDGES
            )
            calls: dict[str, Callable[[], object]] = {
                "formula": lambda f=formula, x=x: f(x),
                "numpy": hand[name],
                "columns": best[name],
                "predict": lambda g=graded, x=x: g(x),
                "range": lambda b=band, x=x: b(x),
            }
            if fast:
                calls["numexpr"] = fast[name]
            close = np.allclose(formula(x).numpy(), hand[name](), rtol=1e-4, atol=1e-3)
            spent = milliseconds(calls, options.repeats)
            rows.append(
                {
                    "formula": name,
                    "dtype": str(dtype).removeprefix("torch."),
                    "rows": options.rows,
                    "formula_ms": round(spent["formula"], 2),
                    "numpy_ms": round(spent["numpy"], 2),
                    "ratio": round(spent["formula"] / spent["numpy"], 2),
                    "numpy_columns_ms": round(spent["columns"], 2),
                    "numexpr_ms": round(spent["numexpr"], 2) if fast else "not installed",
                    "predict_ms": round(spent["predict"], 2),
                    "range_ms": round(spent["range"], 2),
                    "equal": close,
                    **where,
                }
            )
            print(" ".join(f"{key}={value}" for key, value in list(rows[-1].items())[:11]))
    write_csv(rows, options.out)


if __name__ == "__main__":
    main()
