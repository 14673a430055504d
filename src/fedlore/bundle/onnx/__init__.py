"""One site's model as an ONNX graph: network and knowledge together."""

from ...kernel.graph.ops import Answer
from .builder import OPSET
from .model import bundle_to_onnx, to_onnx, write_bundle_onnx, write_onnx

_FAULT = "onnx"  # the code of errors raised here

__all__ = ["OPSET", "Answer", "bundle_to_onnx", "to_onnx", "write_bundle_onnx", "write_onnx"]
