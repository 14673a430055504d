"""A bundle as one ONNX file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...personal.regressor import PersonalRegressor
from .. import Bundle
from .finishing import save_graph
from .model import to_onnx
from .regressor import regressor_to_onnx


def bundle_to_onnx(bundle: Bundle) -> Any:
    """The model of a bundle as an `onnx.ModelProto`, with the bundle's own files of knowledge."""
    personal = bundle.personal
    files = {"knowledge.toml": bundle.knowledge_text}
    files |= {n: d.decode() for n, d in bundle.tables.items() if n.endswith(".csv")}
    metadata = {
        "fedlore.bundle": bundle.fingerprint,
        "fedlore.client": bundle.client,
        "fedlore.knowledge.files": json.dumps(files),
    }
    if bundle.holdings:  # 1 - p, or the distance in halves of the interval: the cut says which hold
        metadata["fedlore.holdings"] = json.dumps([asdict(one) for one in bundle.holdings])
    if isinstance(personal, PersonalRegressor):
        return regressor_to_onnx(personal, bundle.schema, metadata=metadata)
    return to_onnx(
        personal,
        bundle.schema,
        shape=bundle.shape or None,
        metadata=metadata,
    )


def write_bundle_onnx(bundle: Bundle, path: str | Path) -> None:
    """Write the graph of a bundle, whole or not at all."""
    save_graph(bundle_to_onnx(bundle), path)
