"""Small federations in folders: two features and what an expert says of three classes."""

import random

SETTING = """
name = "tiny"
rounds = 2
[run]
approaches = {approaches}
[model]
hidden = [4]
{model}
[plan]
epochs = 1
"""
FEATURE = '[[features]]\nname = "{name}"\nlow = 0\nhigh = 4\n'
KNOWN = f"""
classes = ["g1", "g2", "g3"]
{{trust}}
{FEATURE.format(name="a")}{FEATURE.format(name="b")}{{more}}
[[predict.sources]]
formula = "a"
edges = [1, 3]
"""
SHAPE = '[[shape.sources]]\nfeature = "a"\neffect = "raises"\n'


def write_federation(root, knowledge, columns, row, *, rows, approaches, model):
    """A site for each knowledge file; `row` draws a line of its table."""
    draw = random.Random(3)
    for i, known in enumerate(knowledge):
        site = root / "sites" / f"s{i}"
        site.mkdir(parents=True)
        lines = [columns, *(row(draw) for _ in range(rows))]
        (site / "train.csv").write_text("\n".join(lines) + "\n")
        (site / "knowledge.toml").write_text(known)
    text = SETTING.format(approaches=list(approaches), model=model)
    (root / "federation.toml").write_text(text.replace("'", '"'))
    return root / "federation.toml"
