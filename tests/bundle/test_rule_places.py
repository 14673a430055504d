"""A bundle tells of rules by the files and rows in which their expert wrote them."""

import pytest
import torch

from fedlore import Knowledge, Personal, mlp
from fedlore.bundle import bundle_of, read_bundle, reasons, write_bundle
from fedlore.bundle.update import update_bundle
from fedlore.knowledge.tables.sheets import write_sheet

HEAD = 'classes = ["soft", "hard"]\n[[features]]\nname = "ash"\n'
SHEET = [["ash", "then"], [], ["> 1", "hard"], [], [], ["> 2", "hard"]]


@pytest.mark.parametrize("name", ["our rules.csv", "our rules.xlsx"])
def test_the_file_and_the_row_are_the_experts(tmp_path, name):
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    write_sheet(SHEET, tmp_path / name)
    where = tmp_path / "knowledge.toml"
    where.write_text(f'{HEAD}[[range.sources]]\ntable = "{name}"\n')
    made = bundle_of(Personal(mlp(1, 2), Knowledge.read(where)), "plant")
    for turn in range(2):  # also of a bundle that was made of a bundle
        write_bundle(made, tmp_path / f"{turn}.lore")
        read = read_bundle(tmp_path / f"{turn}.lore")
        (said,) = reasons(read, torch.tensor([[3.0]]))
        own = name.replace(" ", "-")
        assert said[:2] == [f"{own}, row 3: ash > 1 -> hard", f"{own}, row 6: ash > 2 -> hard"]
        made = update_bundle(read, trust=0.0)
