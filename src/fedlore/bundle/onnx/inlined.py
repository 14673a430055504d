"""An expert that is an ONNX file, put into the graph node by node."""

from typing import Any

import numpy as np

from ...errors import KnowledgeError
from ...knowledge.sources.onnx import OnnxModel
from .builder import OPSET, Builder
from .scores import label_scores, prior_nodes
from .tables import Said


def inline_model(build: Builder, x: str, model: OnnxModel) -> Said:
    """The file's own graph on rows x, float32, with new names."""
    onnx = build.onnx
    inner = onnx.load_from_string(model.content())
    if len(inner.functions):
        inner = onnx.inliner.inline_local_functions(inner)
    inner = _at_opset(build, inner, model)
    prefix = build.fresh("expert") + "/"
    inner = onnx.compose.add_prefix(inner, prefix)
    graph = inner.graph
    known = {tensor.name for tensor in graph.initializer}
    entry = next(value for value in graph.input if value.name not in known)
    kind = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
    rows = build.cast(x, kind)
    build.nodes.append(onnx.helper.make_node("Identity", [rows], [entry.name]))
    build.nodes.extend(graph.node)
    build.initializers.extend(graph.initializer)
    output = model.output()
    if output.type == "tensor(int64)":
        return label_scores(build, prefix + output.name, model.classes or 0)
    scores = build.cast(prefix + output.name, np.float32)
    return prior_nodes(build, scores, soft=model.soft, gives=model.gives)


def _at_opset(build: Builder, inner: Any, model: OnnxModel) -> Any:
    """The file with the operator set of the graph around it, brought up to it where it is older."""
    onnx = build.onnx
    for entry in inner.opset_import:
        if entry.domain in ("", "ai.onnx"):
            if entry.version > OPSET:
                raise KnowledgeError(
                    f"'{model.path}' has operator set {entry.version}, the graph has {OPSET}: "
                    f"export it with opset {OPSET} or lower"
                )
            if entry.version < OPSET:
                inner = onnx.version_converter.convert_version(inner, OPSET)
        else:
            before = build.domains.setdefault(entry.domain, entry.version)
            if before != entry.version:
                raise KnowledgeError(
                    f"'{model.path}' has version {entry.version} of '{entry.domain}', another "
                    f"expert has {before}: export both alike"
                )
    return inner
