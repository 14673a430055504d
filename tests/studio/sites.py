"""A small site for the studio: two tables, remarks in its file, rows with labels."""

from pathlib import Path

from fedlore.studio import Workplace, Workspace, find_workplace

TOML = """\
# grades of coal, as the foreman explained them
classes = ["III", "II", "I"]   # from worst to best
label = "grade"
trust = 0.3  # careful

[[features]]
name = "ash"
unit = "%"
low = 5
high = 16

[[features]]
name = "seam"
levels = ["A", "B", "C"]

[[predict.sources]]
table = "predict.csv"

[[range.sources]]
table = "range.csv"   # physics
"""
PREDICT = "ash [%],seam,then\n> 14,,III\n<= 14,C,II\n< 9,,I\n"
RANGE = "ash [%],then\n> 12,III..II\n< 8,II..I\n"
ROWS = "ash,seam,grade\n15,A,III\n10,C,II\n7,B,I\n13,A,II\n6,C,II\n11,B,II\n"
FILES = {
    "knowledge.toml": TOML.encode(),
    "predict.csv": PREDICT.encode(),
    "range.csv": RANGE.encode(),
}


def site(folder: Path, **files: str) -> Path:
    """The folder of the site, some files with other contents."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {"knowledge": TOML, "predict": PREDICT, "range": RANGE, "train": ROWS, **files}
    for name, text in given.items():
        (folder / f"{name}.{'toml' if name == 'knowledge' else 'csv'}").write_text(text)
    return folder


def place(folder: Path, **files: str) -> Workplace:
    return find_workplace(site(folder, **files))


def desk(folder: Path, **files: str) -> Workspace:
    return Workspace(place(folder, **files))
