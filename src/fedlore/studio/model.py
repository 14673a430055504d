"""What the site's model says of a row, where the site has one."""

from pathlib import Path
from typing import Any

from torch import Tensor

from ..bundle import read_bundle
from ..bundle.serve.answer import Answering, Silent
from ..errors import FedloreError
from ..knowledge.lint.checkup import Checkup


class SiteModel:
    """A bundle, opened when it is first asked."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answering: Answering | None = None
        self._fault = ""

    def say(self, x: Tensor, checkup: Checkup) -> dict[str, Any] | None:
        """The bundle's own answer to a row, with the rules that it was made with."""
        if self._path is None:
            return None
        try:
            if self._answering is None:
                self._answering = Answering.of(read_bundle(self._path))
            schema = self._answering.bundle.schema
            known = checkup.knowledge
            if known is None or known.schema is None or schema.names != known.schema.names:
                raise FedloreError("the model has other features than the draft")
            return {**self._answering(x.double())[0][0], "name": self._path.name}
        except (FedloreError, Silent) as error:
            return {"name": self._path.name, "fault": str(error)}
