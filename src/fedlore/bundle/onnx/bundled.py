"""A bundle as one ONNX file."""

import json
from pathlib import Path
from typing import Any

from ...errors import FedloreError
from ...personal.regressor import PersonalRegressor
from .. import Bundle
from .model import save_graph, to_onnx


def bundle_to_onnx(bundle: Bundle) -> Any:
    """The model of a bundle as an `onnx.ModelProto`, with the bundle's own files of knowledge."""
    personal = bundle.personal
    if isinstance(personal, PersonalRegressor):
        raise FedloreError(
            "a PersonalRegressor cannot be put into a graph: its numbers are decoded in Python "
            "(fedlore predict and fedlore serve use the bundle itself)"
        )
    files = {"knowledge.toml": bundle.knowledge_text}
    files |= {n: d.decode() for n, d in bundle.tables.items() if n.endswith(".csv")}
    metadata = {
        "fedlore.bundle": bundle.fingerprint,
        "fedlore.client": bundle.client,
        "fedlore.knowledge.files": json.dumps(files),
    }
    return to_onnx(
        personal,
        bundle.schema,
        shape=bundle.shape or None,
        metadata=metadata,
    )


def write_bundle_onnx(bundle: Bundle, path: str | Path) -> None:
    """Write the graph of a bundle, whole or not at all."""
    save_graph(bundle_to_onnx(bundle), path)
