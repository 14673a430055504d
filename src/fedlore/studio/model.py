"""What the site's model says of a row, where the site has one."""

from pathlib import Path
from typing import Any

from torch import Tensor

from ..bundle import Bundle, read_bundle
from ..bundle.serve.answer import Answerer, Silent
from ..errors import FedloreError
from ..knowledge.findings.checkup import Checkup


class SiteModel:
    """A bundle, opened when it is first asked."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answering: Answerer | None = None

    def bundle(self) -> Bundle:
        """The bundle itself, or a sentence why there is none."""
        if self._path is None:
            raise FedloreError("there is no model in this folder: put its .lore file here")
        return self._open(self._path).bundle

    def _open(self, path: Path) -> Answerer:
        if self._answering is None:
            self._answering = Answerer.of(read_bundle(path))
        return self._answering

    def say(self, x: Tensor, checkup: Checkup) -> dict[str, Any] | None:
        """The bundle's own answer to a row, with the rules that it was made with."""
        if self._path is None:
            return None
        try:
            answering = self._open(self._path)
            schema = answering.bundle.schema
            known = checkup.knowledge
            if known is None or known.schema is None or schema.names != known.schema.names:
                raise FedloreError("the model has other features than the draft")
            return {**answering(x.double())[0][0], "name": self._path.name}
        except (FedloreError, Silent) as error:
            return {"name": self._path.name, "fault": str(error)}
