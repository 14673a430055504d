"""An ONNX file as a source of predictions, run by onnxruntime."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.tensors import torch
from ...errors import KnowledgeError
from ..estimators import Gives, as_prior
from ..views import look_through
from .kind import Asked, Attached, Setting, SourceKind

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX file as a P-KM: one input of rows; scores per class, or labels 0 to `classes` - 1.

    Scores are taken as probabilities unless `gives` says logits. One thread on the CPU. `digest`
    is the sha256 of the file that was loaded. A model given as `data` needs no file.
    """

    path: str | Path = field(compare=False)  # the digest says what it is
    soft: bool = False
    gives: Gives = "probabilities"
    classes: int | None = None  # needed for labels only
    data: bytes | None = field(default=None, repr=False, compare=False)  # of a file in memory
    digest: str = field(init=False)
    session: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            ort = importlib.import_module("onnxruntime")
        except ImportError as error:
            raise KnowledgeError("an ONNX model needs: pip install 'fedlore[onnx]'") from error
        data = self._content()
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what goes wrong is raised here
        try:
            # from the bytes that were hashed; a file that points to others cannot be loaded so
            session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises classes of its own for every fault
            raise KnowledgeError(
                f"'{self.path}' is no ONNX model that can be run: {error}"
            ) from error
        object.__setattr__(self, "digest", hashlib.sha256(data).hexdigest())
        object.__setattr__(self, "session", session)
        self._check()

    def __call__(self, x: Tensor, /) -> Tensor:
        entry, output = self.session.get_inputs()[0], self.output()
        kind = np.float64 if entry.type == "tensor(double)" else np.float32
        rows = x.detach().cpu().numpy().astype(kind)
        try:
            answer = self.session.run([output.name], {entry.name: rows})[0]
        except Exception as error:  # see above
            raise KnowledgeError(
                f"'{self.path}' cannot take rows of this shape: {error}"
            ) from error
        found = torch.as_tensor(answer)
        if output.type != "tensor(int64)":
            return as_prior(found, soft=self.soft, gives=self.gives).to(x.device, x.dtype)
        labels = found.reshape(len(x))
        classes = self.classes or 0  # checked at the door
        wrong = (labels < 0) | (labels >= classes)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise KnowledgeError(
                f"labels must lie in 0 to {classes - 1}: row {row} has {int(labels[row])}"
            )
        return torch.nn.functional.one_hot(labels, classes).to(x.device, x.dtype)

    def content(self) -> bytes:
        """The file that was loaded, and no other."""
        data = self._content()
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise KnowledgeError(f"'{self.path}' was changed after it was loaded")
        return data

    def _content(self) -> bytes:
        if self.data is not None:
            return self.data
        try:
            return Path(self.path).read_bytes()
        except OSError as error:
            raise KnowledgeError(f"cannot read '{self.path}': {error.strerror}") from error

    def _check(self) -> None:
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in ("tensor(float)", "tensor(double)"):
            found = ", ".join(f"{entry.name}: {entry.type}" for entry in inputs)
            raise KnowledgeError(f"the file must have one input of floats, got {found}")
        if inputs[0].shape and isinstance(inputs[0].shape[0], int):
            raise KnowledgeError(
                f"the file takes {inputs[0].shape[0]} rows at a time: export it with a free axis"
            )
        if self.output().type == "tensor(int64)" and (self.classes is None or self.soft):
            raise KnowledgeError("a file that gives labels needs classes=, and cannot be soft")

    def output(self) -> Any:
        """The scores; else the labels."""
        outputs = self.session.get_outputs()
        for wanted in ("tensor(float)", "tensor(double)", "tensor(int64)"):
            for output in outputs:
                if output.type == wanted:
                    return output
        found = ", ".join(f"{output.name}: {output.type}" for output in outputs)
        raise KnowledgeError(
            f"the file must give scores or labels as a tensor, got {found} (zipmap=False helps)"
        )


@dataclass(frozen=True)
class OnnxEntry:
    """The keys of an ONNX file."""

    onnx: str  # a graph's file
    soft: bool = False  # take its probabilities, not its first choice alone
    gives: Gives = "probabilities"  # what its output is
    columns: tuple[str, ...] = ()  # what it sees; all by default
    pool: int | None = None  # or p×p max-pooled images


def _read(entry: OnnxEntry, asked: Asked, setting: Setting) -> Any:
    path, k = setting.files.path(entry.onnx), len(setting.schema.classes)
    data = setting.files.read(entry.onnx) if path is None else None
    model = OnnxModel(path or entry.onnx, entry.soft, entry.gives, k, data)
    columns = entry.columns or setting.columns
    return look_through(model, columns=columns, pool=entry.pool, schema=setting.schema)


def _write(model: OnnxModel, inner: object) -> dict[str, Any]:
    said = Attached(model.digest, model.content, lambda place: f"model-{place}.onnx")
    return {"onnx": said, "soft": model.soft, "gives": model.gives}


ONNX = SourceKind(
    name="onnx",
    entry=OnnxEntry,
    models=(OnnxModel,),
    asked=("prediction",),
    read=_read,
    write=_write,
    lint=lambda model, place: (),
)
