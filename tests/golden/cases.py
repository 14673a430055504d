"""Some seventy knowledge files of every kind, drawn with fixed seeds: `cases.json` holds them.

Nothing here imports fedlore, so that no change of it can change the files.
"""

import csv
import io
import json
import random
from pathlib import Path

HERE = Path(__file__).parent
REPO = HERE.parent.parent
CASES = HERE / "cases.json"

Files = dict[str, str]

ROMAN = 'classes = ["IV", "III", "II", "I"]\nlabel = "grade"\n'
ORDERED = 'classes = ["low", "mid", "good", "best"]\nordered = true\nlabel = "grade"\n'
TREES = 'classes = ["birch", "cedar", "oak", "yew"]\nordered = false\nlabel = "tree"\n'
FEATURES = """
[[features]]
name = "ash"
unit = "%"
low = 0
high = 40

[[features]]
name = "sulfur"
unit = "%"
low = 0
high = 5

[[features]]
name = "heat"
low = -10
high = 10

[[features]]
name = "mine"
levels = ["north", "south", "west"]
"""
HOLED = (
    FEATURES.replace("high = 40\n", 'high = 40\nmissing = "mean"\n')
    .replace("high = 5\n", "high = 5\nmissing = 1.5\n")
    .replace('"west"]\n', '"west"]\nmissing = "level"\nother = true\n')
)
TARGET = '\n[target]\nname = "strength"\nlower = 0\nupper = 10\nbins = 5\n'
EDGED = '\n[target]\nname = "strength"\nlower = 0\nupper = 10\nedges = [0, 1.5, 3, 7.25, 10]\n'

NUMBERS = ("0.1", "0.3", "1.0", "3.0", "7.7", "12.0")
FORMULAS = (
    "2 * ash + 0.5 * sulfur",
    "ash / (sulfur - 3)",
    "where(ash > 7.7 and not (sulfur <= 0.3), sqrt(ash), heat ** 2)",
    "min(ash, 3 * sulfur, 10) - abs(heat)",
    "max(heat, 0.1) ** 3",
    "where(heat == 1.0 or heat != 3.0, sqrt(heat), 1e20 * 1e20)",
    "5",
)
NUMBER_FORMULAS = (
    "0.2 * ash + 0.5 * sulfur",
    "sulfur + where(ash > 7.7 and not (sulfur <= 0.3), sqrt(ash), 2)",
    "min(ash / 4, 3 * sulfur, 9)",
    "max(heat, 0.1) + 1.03",
    "5.07",
)
EDGES = "edges = [0.3, 3.0, 7.7]\n"
NUMBER_SETS = ("[1..4]", "[3..8]", "in 0.5..2.5, 5..7", ">= 2", "<= 6", "[2..9]")


def condition(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.35:
        return "-"
    if kind < 0.75:
        return f"{draw.choice(('<', '<=', '>', '>=', '='))} {draw.choice(NUMBERS)}"
    if kind < 0.9:
        return f"{draw.choice('[(')}0.3..7.7{draw.choice('])')}"
    return "not 1"


def table(draw: random.Random, outcomes, *, hit=None, soft=False, most=6) -> str:
    """A sheet of rules as CSV."""
    text = io.StringIO()
    extra = ["priority"] if hit == "priority" else []
    names = ["ash", "sulfur", "heat", "mine", "then", *extra, *(["confidence"] if soft else [])]
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    for _ in range(draw.randint(2, most)):
        row = {name: condition(draw) for name in ("ash", "sulfur", "heat")}
        row |= {"mine": draw.choice(("-", "-", "north", "not south", "in south, west"))}
        row |= {"then": draw.choice(outcomes)}
        row |= {"priority": draw.randint(1, 3)} if extra else {}
        row |= {"confidence": draw.choice(("0.25", "0.6", "90 %", "9 of 10"))} if soft else {}
        writer.writerow(row)
    return text.getvalue()


def top(draw: random.Random, *, trust="0.3", conflict=None) -> str:
    conflict = conflict or draw.choice(("abstain", "restrict"))
    return f'trust = {trust}\nconflict = "{conflict}"\noutside = "widen"\n'


def sets_of(classes: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Outcomes of predictions and of ranges."""
    a, b, c, d = json.loads(classes.split("\n")[0].split(" = ")[1])
    several = (f"{a}, {b}", f"{b}, {c}, {d}", f"{b}, {c}", "all", f"not {c}", b)
    return (a, b, c, d), several if classes is TREES else (f"{a}..{c}", f"{b}..{d}", *several[2:])


def predict_table(draw, files: Files, classes: str, name="p.csv", **how) -> str:
    files[name] = table(draw, sets_of(classes)[0], **how)
    hit = f'hit = "{how["hit"]}"\n' if how.get("hit") else ""
    return f'\n[[predict.sources]]\ntable = "{name}"\n{hit}'


def range_table(draw, files: Files, classes: str, name="r.csv", **how) -> str:
    files[name] = table(draw, sets_of(classes)[1], most=4, **how)
    hit = f'hit = "{how["hit"]}"\n' if how.get("hit") else ""
    return f'\n[[range.sources]]\ntable = "{name}"\n{hit}'


def predict_formula(draw, *, more="", edges=EDGES, texts=FORMULAS) -> str:
    return f'\n[[predict.sources]]\nformula = "{draw.choice(texts)}"\n{edges}{more}'


def limits(draw, *, crossed="error", edges=EDGES, more="", texts=FORMULAS, sides="both") -> str:
    text = draw.choice(texts)
    lower = f'lower = "({text}) - 1.3"\n' if sides != "upper" else ""
    upper = f'upper = "({text}) + 2.1"\n' if sides != "lower" else ""
    last = f'crossed = "{crossed}"\n' if edges and not more else ""
    return f"\n[[range.sources]]\n{lower}{upper}{edges}{last}{more}"


def class_cases() -> dict[str, Files]:
    found: dict[str, Files] = {}

    def case(name: str, body, *, classes=ROMAN, features=FEATURES, **how):
        draw, files = random.Random(name), {}
        head = top(draw, **how) + classes
        said = body(draw, files, classes)
        files["knowledge.toml"] = head + features + said
        found[name] = files

    def both(hit_p=None, hit_r=None, **soft):
        return lambda d, f, c: (
            predict_table(d, f, c, hit=hit_p) + range_table(d, f, c, hit=hit_r, **soft)
        )

    for name, features in (("whole", FEATURES), ("holes", HOLED)):
        case(f"{name}-first-intersect", both("first", "intersect"), features=features)
        case(f"{name}-priority-union", both("priority", "union"), features=features)
        case(f"{name}-unique", both("unique"), features=features)
        case(f"{name}-ordered", both(), features=features, classes=ORDERED)
        case(f"{name}-trees", both(), features=features, classes=TREES)
        case(f"{name}-error", both(), features=features, conflict="error")
        case(
            f"{name}-formula",
            lambda d, f, c: predict_formula(d) + limits(d, crossed="all"),
            features=features,
        )
        case(
            f"{name}-spread",
            lambda d, f, c: predict_formula(d, more="spread = 0.8\n") + limits(d, sides="lower"),
            features=features,
            conflict="restrict",
        )
        case(
            f"{name}-soft-rules",
            lambda d, f, c: (
                predict_table(d, f, c, soft=True)
                + range_table(d, f, c)
                + range_table(d, f, c, "s.csv", soft=True)
            ),
            features=features,
        )
        case(
            f"{name}-soft-formulas",
            lambda d, f, c: (
                predict_formula(d, more="confidence = 0.9\n")
                + limits(d, more="confidence = 0.5\n")
                + range_table(d, f, c, "s.csv", soft=True)
            ),
            features=features,
        )
        for empty in ("error", "first", "all"):
            case(
                f"{name}-all-{empty}",
                lambda d, f, c, empty=empty: (
                    f'\n[range]\ncombine = "all"\nempty = "{empty}"\n'
                    + range_table(d, f, c)
                    + limits(d, crossed="all", sides="upper")
                    + range_table(d, f, c, "r2.csv")
                ),
                features=features,
            )
        case(
            f"{name}-any",
            lambda d, f, c: (
                '\n[range]\ncombine = "any"\n' + range_table(d, f, c) + limits(d, crossed="all")
            ),
            features=features,
        )
        case(
            f"{name}-average",
            lambda d, f, c: (
                '\n[predict]\ncombine = "average"\nweights = [1, 2, 3]\n'
                + predict_table(d, f, c)
                + predict_formula(d)
                + predict_formula(d, more="spread = 2.0\n")
                + range_table(d, f, c)
            ),
            features=features,
            conflict="restrict",
        )
        case(
            f"{name}-first-said",
            lambda d, f, c: predict_table(d, f, c) + predict_formula(d) + limits(d, sides="upper"),
            features=features,
        )
        case(
            f"{name}-row-trust",
            lambda d, f, c: (
                predict_table(d, f, c)
                + range_table(d, f, c)
                + '\n[trust]\nvalue = 0.2\nfeatures = ["ash"]\n'
                + "\n[[trust.regions]]\nwhere = \"mine != 'south' and heat > 1\"\ntrust = 0.8\n"
            ),
            features=features,
            trust="",
        )
        case(
            f"{name}-shape",
            lambda d, f, c: (
                (
                    '\n[[shape.sources]]\nfeature = "ash"\neffect = "lowers"\n'
                    + '\n[[shape.sources]]\nfeature = "sulfur"\neffect = "raises"\n'
                    + 'where = "heat > 1"\n'
                    + '\n[[range.sources]]\ntable = "r.csv"\n'
                )
                + f.setdefault("r.csv", 'ash,then\n> 7.7,low..good\n> 12.0,"low, mid"\n')[:0]
            ),
            features=features,
            classes=ORDERED,
        )
        case(
            f"{name}-conformal",
            lambda d, f, c: (
                "\n[[range.sources]]\n[range.sources.conformal]\nalpha = 0.1\n"
                'score = "lac"\nrows = 60\nthresholds = [0.7, 0.8, 0.75, 0.9]\n'
                "[range.sources.conformal.scorer]\n"
                f'formula = "ash / 3"\n{EDGES}spread = 2.0\n'
            ),
            features=features,
        )
    return found


def number_cases(again: str = "") -> dict[str, Files]:
    found: dict[str, Files] = {}

    def case(name: str, body, *, features=HOLED, target=TARGET, conflict="abstain", trust="0.3"):
        name += again
        draw, files = random.Random(name), {}
        head = top(draw, conflict=conflict, trust=trust)
        said = body(draw, files)
        files["knowledge.toml"] = head + features + target + said
        found[name] = files

    def points(d, f, hit="first", name="p.csv"):
        f[name] = table(d, ("1.5", "4", "7.25"), hit=hit, most=4)
        return f'\n[[predict.sources]]\ntable = "{name}"\nhit = "{hit}"\n'

    def sets(d, f, hit="intersect", name="r.csv"):
        f[name] = table(d, NUMBER_SETS, hit=hit, most=3)
        return f'\n[[range.sources]]\ntable = "{name}"\nhit = "{hit}"\n'

    def formula(d):
        return predict_formula(d, edges="", texts=NUMBER_FORMULAS)

    def between(d, sides="both"):
        return limits(d, edges="", texts=NUMBER_FORMULAS, sides=sides)

    case("number-tables", lambda d, f: points(d, f) + sets(d, f))
    case("number-union", lambda d, f: points(d, f, "priority") + sets(d, f, "union"))
    case("number-unique", lambda d, f: points(d, f, "unique") + sets(d, f), features=FEATURES)
    case("number-formulas", lambda d, f: formula(d) + between(d))
    case("number-lower", lambda d, f: formula(d) + between(d, "lower"), conflict="project")
    case("number-upper", lambda d, f: points(d, f) + between(d, "upper"), conflict="error")
    case("number-edges", lambda d, f: points(d, f) + sets(d, f), target=EDGED, conflict="project")
    case("number-first", lambda d, f: points(d, f) + formula(d) + sets(d, f), features=FEATURES)
    case(
        "number-spread",
        lambda d, f: "\n[predict]\nspread = 0.8\n" + formula(d) + sets(d, f),
        conflict="project",
    )
    case("number-all", lambda d, f: formula(d) + sets(d, f) + between(d, "lower"))
    case(
        "number-all-three",
        lambda d, f: sets(d, f) + sets(d, f, "union", "r2.csv") + between(d),
        features=FEATURES,
    )
    case(
        "number-any",
        lambda d, f: '\n[range]\ncombine = "any"\n' + formula(d) + sets(d, f) + between(d),
    )
    case("number-empty-all", lambda d, f: '\n[range]\nempty = "all"\n' + points(d, f) + sets(d, f))
    case(
        "number-row-trust",
        lambda d, f: (
            formula(d)
            + sets(d, f)
            + '\n[trust]\nvalue = 0.2\nfeatures = ["ash"]\n'
            + "\n[[trust.regions]]\nwhere = \"mine != 'south' and heat > 1\"\ntrust = 0.8\n"
        ),
        trust="",
    )
    case(
        "number-shape",
        lambda d, f: (
            between(d, "upper")[:0]
            + '\n[[shape.sources]]\nfeature = "ash"\neffect = "raises"\n'
            + '\n[[range.sources]]\nlower = "ash / 8"\nupper = "ash / 8 + 4.4"\n'
        ),
    )
    case(
        "number-conformal",
        lambda d, f: (
            "\n[[range.sources]]\n[range.sources.conformal]\nalpha = 0.1\nrows = 20\n"
            'thresholds = [1.5]\n[range.sources.conformal.scorer]\nformula = "ash / 4"\n'
        ),
        features=FEATURES,
    )
    return found


def coke_cases() -> dict[str, Files]:
    """The plants of examples/coke whose knowledge is text."""
    found = {}
    for plant in ("plant-1", "plant-3", "plant-4"):
        home = REPO / "examples" / "coke" / plant
        names = ("knowledge.toml", "predict.csv", "range.csv")
        found[plant] = {n: (home / n).read_text() for n in names if (home / n).exists()}
    return found


def make_cases() -> dict[str, Files]:
    tidy = {**coke_cases(), **class_cases(), **number_cases(), **number_cases("-2")}
    return {name: _without_blank_trust(files) for name, files in tidy.items()}


def _without_blank_trust(files: Files) -> Files:
    text = files["knowledge.toml"].replace("trust = \n", "")
    return {**files, "knowledge.toml": text}


def read_cases() -> dict[str, Files]:
    return json.loads(CASES.read_text())


if __name__ == "__main__":
    CASES.write_text(json.dumps(make_cases(), indent=0, ensure_ascii=False) + "\n")
