"""Every column of the rows that commands write, in words."""

from .keys import escape

#: Column -> meaning, by the files that hold it. Accuracies and shares are fractions.
COLUMNS: dict[str, dict[str, str]] = {
    "results.jsonl: a row per approach, site and seed": {
        "dataset": "what was learned from",
        "protocol": "of a study: `fair` gives every approach the same start and the same steps",
        "range": "where ranges come from: `expert`, `oracle` (made from labels), `honest`, ...",
        "approach": "who learns, and where knowledge enters: ML, FL, FLwKM, lore, ...",
        "client": "the site",
        "seed": "of data, weights and batches",
        "model": "whose weights predict: `own`, `shared`, `expert`, ...",
        "k": "bins of a number",
        "share": "share of the rows that a study gives to training",
        "part": "which part of the recipe a study left out or added",
        "table": "of a package, in the study of ten tables",
        "draw": "how its rows were dealt",
        "set": "the data set of a study of lore",
        "trust": "λ, `auto` where each site chose its own",
        "trained": "λ in training, where it differs",
        "rely": "λ at prediction",
        "finish": "last local steps that stay at home",
        "chosen": "what trials chose: a recipe, or a site's own model",
        "weights": "of the members of a mixture",
        "privacy": "what privacy cost in this training",
        "ta": "TA in the paper: share of test rows predicted right",
        "balanced": "mean over classes of the share predicted right",
        "macro_f1": "mean over classes of F1",
        "grade_error": "mean distance in grades, where classes have an order",
        "kappa": "Cohen's κ with quadratic weights, where classes have an order",
        "nll": "mean negative log-likelihood of the test labels",
        "brier": "Brier score of the probabilities, 0 to 2",
        "crps": "CRPS, in grades or in units of the number",
        "diagram": "how sure, how often right, of how many rows; of a number promised, held, rows",
        "rmse": "root of the mean squared error of a number",
        "mae": "mean absolute error of a number",
        "r2": "share of the variance of a number that is explained",
        "pov": "POV in the paper: share of predictions outside the site's range",
        "abstained": "share of test rows on which an expert alone is silent",
        "coverage": "share of test labels inside the range",
        "width": "mean number of classes (or length of intervals) that the range allows",
        "train_rows": "rows to train on",
        "test_rows": "rows to test on",
        "rounds": "T in the paper",
        "seconds": "of this cell",
        "cpu": "processor seconds of this cell",
        "config": "hash of the settings; a row with another one is computed again",
        "versions": "of fedlore and what it computes with",
    },
    "rounds.jsonl, and the history of a training": {
        "round": "from 1",
        "asked": "sites that were asked",
        "merged": "sites whose uploads were merged",
        "trial": "a candidate of the recipe",
        "loss": "its loss, added up over the sites' held-out rows",
        "recipe": "what the votes chose",
    },
    "confusion.jsonl": {
        "label": "the class of a test row, by its place",
        "predicted": "what was predicted; -1 where nobody spoke",
        "count": "how often the two met",
    },
    "arches.jsonl and columns.jsonl: a row per drawing": {
        "arm": "what was stated, or who had which columns",
        "named": "share of sites at which lint names a false shape",
        "rows": "the scores of each site",
        "claimed": "mean mass of the sets of at least 90 %",
        "even": "coverage where the last grade is in a set only as often as 90 % asks for",
        "column": "of which a plant tells what it is worth, with `value`, `low` and `high`",
        "true": "what it is on 3,000 other rows",
    },
    "watch.jsonl: a row per world of the study of the monitor": {
        "world": "how its rows hang together",
        "change": "what changes in a year, or `none`",
        "first": "the first seed",
        "runs": "years that were drawn",
        "alarms": "years with an alarm",
        "named": "years in which the change was named",
        "median": "rows after the change until then, in the middle of those years",
        "most": "and at the most",
        "calm": "rows before the change",
    },
    "benefit.jsonl: a row per site of the study of the benefit page": {
        "measure": "accuracy, or the RMSE of a number",
        "rows": "of the site, which the page judges by",
        "tested": "new rows that show the truth",
        "value": "what the page says of the ensemble",
        "low": "lower end of its interval",
        "high": "upper end",
        "truth": "what the new rows show",
    },
    "leak-CASE.jsonl: a row per setting, site and seed": {
        "case": "whose training was attacked",
        "setting": "what hides uploads",
        "view": "what the coordinator sees: `single` uploads or sums",
        "site": "the site under attack",
        "union error": "attack on the classes the site's ranges ever allow; 0 finds them all",
        "union chance": "the same without a look at any upload",
        "own union error": "the same by what the site's own uploads alone show",
        "own union chance": "without a look",
        "frequency error": "attack on how often each class is allowed",
        "frequency chance": "without a look",
        "right error": "attack on how often the expert is right",
        "right chance": "without a look",
        "trust error": "attack on λ",
        "trust chance": "without a look",
        "member error": "attack on whether a row was trained on",
        "member chance": "without a look",
        "labels error": "attack on the shares of the labels",
        "labels chance": "without a look",
        "row range error": "attack on the range of one row",
        "row range chance": "without a look",
        "row right error": "attack on whether the expert is right on one row",
        "row right chance": "without a look",
    },
}


def write_columns_page() -> str:
    """All columns on one page as Markdown."""
    lines = [
        "# Columns of the rows\n",
        "Results are flat rows of plain values, one JSON object per line. Tables, plots and "
        "reports are made from them later. A column that says nothing about a row is left out "
        "or `null`.\n",
    ]
    for file, columns in COLUMNS.items():
        told = "".join(f"| `{name}` | {escape(words)} |\n" for name, words in columns.items())
        lines += [f"## {file}\n", f"| column | meaning |\n|---|---|\n{told}"]
    return "\n".join(lines)
