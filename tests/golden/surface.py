"""All that the golden corpus asks of fedlore. When a name moves, this file moves, no other.

Commands are the first choice, public names the second; what only lives deeper is marked.
"""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import onnxruntime as ort
import torch

from fedlore import Knowledge, Personal, PersonalRegressor, bundle_of, mlp, write_bundle
from fedlore.cli import main
from fedlore.core.models import ShapedNet  # deeper: [model] lipschitz = true
from fedlore.core.scaler import leave_unscaled  # deeper: rows with holes and levels, unscaled
from fedlore.knowledge.scope import inputs_of  # deeper: the same

#: Kinds of findings that were renamed on purpose: what they are called now -> in `frozen.json`.
KINDS: dict[str, str] = {}
#: Columns of `fedlore predict` that were renamed on purpose: now -> in `frozen.json`.
COLUMNS: dict[str, str] = {}


def command(*arguments: object) -> dict:
    """What `fedlore ... --json` gives out."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["fedlore", *map(str, arguments), "--json"]),
        mock.patch.dict(os.environ, {"NO_COLOR": "1"}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit:
            pass
    text = out.buffer.getvalue().decode()
    assert text.strip(), err.buffer.getvalue().decode()
    return json.loads(text)


def findings(knowledge: Path, data: Path | None = None) -> list[list]:
    """Severity, kind and place of all that lint finds, in order."""
    said = command("lint", knowledge, *(["--data", data] if data else []))
    found = [
        [
            one["severity"],
            KINDS.get(one["kind"], one["kind"]),
            *(one["place"][key] for key in ("file", "sheet", "row", "column")),
        ]
        for one in said["findings"]
    ]
    return sorted(found, key=json.dumps)


def bundle(folder: Path, *, seed: int | None) -> Path:
    """The knowledge of a folder with a network: all zeros, so that only knowledge speaks, or drawn.

    It is asked about rows as they are, unscaled.
    """
    path = folder / "knowledge.toml"
    number = "[target]" in path.read_text()
    known = Knowledge.read(path)
    inputs = inputs_of(known.schema)
    width = len(known.schema.features) if inputs is None else inputs.width
    classes = known.bins.k if number else len(known.schema.classes)
    if known.shapes is not None:
        net = ShapedNet((6,)).make(width, classes, hears=False, seed=seed or 0)
    else:
        net = mlp(width, classes, hidden=(6,), seed=seed or 0)
    if seed is None:
        with torch.no_grad():
            for values in net.parameters():
                values.zero_()
    scaler = None if inputs is None else leave_unscaled(inputs)
    personal = (
        PersonalRegressor(net, known.bins, known, scaler=scaler)
        if number
        else Personal(net, known, scaler=scaler)
    )
    made = bundle_of(personal, "site", schema=known.schema)
    place = folder / f"{seed}.lore"
    write_bundle(made, place)
    return place


def answers(lore: Path, rows: Path) -> dict[str, list[str]]:
    """The columns of `fedlore predict`, cell by cell; of a refused row only that it is."""
    said = command("predict", lore, rows)["answers"]
    columns = {name: [row[name] or "" for row in said] for name in said[0]}
    refused = columns.pop("error", [""] * len(said))
    found = {COLUMNS.get(name, name): cells for name, cells in columns.items()}
    return found | {"refused": ["refused" if cell else "" for cell in refused]}


def graph(lore: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of the graph that `fedlore export --onnx` writes."""
    place = lore.with_suffix(".onnx")
    command("export", lore, "--onnx", place, "--accept-conflicts")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(place), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, {"rows": x}), strict=True))


#: Keys of result rows that were renamed on purpose: now -> in `learned.json`.
SCORES: dict[str, str] = {}


def lore_rows(config: Path, out: Path) -> list[dict]:
    """The scores of `fedlore run`, a row per site."""
    said = command("run", config, "--out", out, "--accept-conflicts")["rows"]
    numbers = [{SCORES.get(k, k): v for k, v in r.items() if isinstance(v, float)} for r in said]
    return [{"client": row["client"], **some} for row, some in zip(said, numbers, strict=True)]


def deployed(folder: Path) -> dict[str, list]:
    """A training over Flower's messages: the mean probabilities of each site's own model."""
    import pytest

    from ..federation.inside import Inside
    from ..federation.test_chosen import chosen, own_models, probabilities

    home = chosen(folder / "fed")
    with pytest.MonkeyPatch.context() as patch:
        Inside(home, patch).train()
    return {
        name: probabilities(model, home, name).double().mean(0).tolist()
        for name, model in own_models(home).items()
    }
