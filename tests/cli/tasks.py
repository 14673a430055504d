"""Two small federations of files, alike but for what is learned: a class, or a number."""

import random
from pathlib import Path

TARGET = {
    "classes": 'label = "grade"\nclasses = ["low", "mid", "top"]\nordered = true\n',
    "number": '[target]\nname = "strength"\nunit = "MPa"\nlower = 0.0\nupper = 20.0\nbins = 10\n',
}
FEATURES = """
[[features]]
name = "age"
unit = "d"
low = 0.0
high = 10.0
[[features]]
name = "oven"
levels = ["old", "new"]
"""
SOURCES = {
    "classes": '[[predict.sources]]\ntable = "predict.csv"\n'
    '[[range.sources]]\ntable = "range.csv"\n',
    "number": '[[predict.sources]]\nformula = "age + 3"\n[[range.sources]]\n'
    'lower = "age - 1"\nupper = "age + 7"\n[[range.sources]]\ntable = "range.csv"\n',
}
TABLES = {
    "classes": {
        "predict.csv": "age,then\n< 4,low\n[4..7],mid\n> 7,top\n",
        "range.csv": "age,then\n< 2,low..mid\n> 8,mid..top\n",
    },
    "number": {"range.csv": "age,oven,then\n> 8,old,>= 8\n< 2,,<= 9\n"},
}
QUICK = """\
name = "small"
rounds = 2
[run]
approaches = [{approaches}]
[model]
hidden = [6]
[plan]
epochs = 1
"""


def write_knowledge(folder: Path, task: str, *, holes: bool = False) -> Path:
    """The knowledge of one site of a task, with its tables; with `holes` values may be missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in TABLES[task].items():
        (folder / name).write_text(text)
    top = 'trust = 0.3\noutside = "widen"\n'
    features = FEATURES
    if holes:
        features = FEATURES.replace("high = 10.0", 'high = 10.0\nmissing = "median"')
        features += 'missing = "level"\nother = true\n'
    text = top + TARGET[task] + features + SOURCES[task]
    (folder / "knowledge.toml").write_text(text)
    return folder / "knowledge.toml"


def write_rows(path: Path, task: str, seed: int, rows: int = 60, *, holes: bool = False) -> Path:
    """Rows of one site: strength grows with age, and in the new oven; with `holes` some lack it."""
    draw = random.Random(seed)
    lines = ["age [d],oven," + ("grade" if task == "classes" else "strength")]
    for _ in range(rows):
        age, oven = draw.uniform(0, 10), draw.choice(("old", "new"))
        strength = age + 2 + (oven == "new") + draw.gauss(0, 0.5)
        strength = min(max(strength, age - 1), age + 7)
        grade = "low" if strength < 6 else "mid" if strength < 10 else "top"
        told = [f"{age:.3f}", oven, grade if task == "classes" else f"{strength:.3f}"]
        if holes and len(lines) % 4 < 2:
            told[len(lines) % 4] = ""
        if holes and len(lines) % 9 == 2:
            told[1] = "the spare one"
        lines.append(",".join(told))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_federation(folder: Path, task: str, *approaches: str) -> Path:
    """Two sites and a federation.toml for a run of seconds."""
    for number, site in enumerate(("east", "west")):
        write_knowledge(folder / "sites" / site, task)
        write_rows(folder / "sites" / site / "train.csv", task, number)
    names = ", ".join(f'"{name}"' for name in approaches or ("FLwKM",))
    (folder / "federation.toml").write_text(QUICK.format(approaches=names))
    return folder / "federation.toml"
