"""The example of each page in docs/extend: installed as a package, and asked for in files."""

import json
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fedlore_coke.experts import EDGES

from ..federation.inside import edited
from ..federation.test_budgets import OPEN
from ..installed import install

DOCS = Path(__file__).parents[2] / "docs" / "extend"
MODEL = re.compile(r'kind = "mlp".*?(?=\[algorithm\])', re.S)


@dataclass(frozen=True)
class Example:
    """What a page brings, and how it is asked for."""

    page: str  # of docs/extend, without the suffix
    key: str  # of the tables of a federation or a policy

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """(language, text) of all blocks of the page."""
        text = (DOCS / f"{self.page}.md").read_text()
        return re.findall(r"^```(\w+)\n(.*?)^```", text, re.S | re.M)

    @property
    def code(self) -> str:
        """The module: the first block of Python."""
        return next(text for kind, text in self.blocks if kind == "python")

    @property
    def laws(self) -> str:
        """The reader's own test: the last one."""
        return [text for kind, text in self.blocks if kind == "python"][-1]

    @property
    def tables(self) -> dict:
        """All TOML of the page, together."""
        found = {}
        for kind, text in self.blocks:
            if kind == "toml":
                found |= tomllib.loads(text)
        return found

    @property
    def entry(self) -> tuple[str, str]:
        """The name under which it is offered, and module:object."""
        ((name, value),) = self.tables["project"]["entry-points"][f"fedlore.{self.key}"].items()
        return name, value

    @property
    def module(self) -> str:
        return self.entry[1].partition(":")[0]

    def install(self, monkeypatch, folder: Path) -> None:
        name, value = self.entry
        install(
            monkeypatch,
            folder / self.module,
            package=self.module,
            code=self.code,
            **{self.key: f"{name} = {value}"},
        )

    def forget(self) -> None:
        sys.modules.pop(self.module, None)

    def agree(self, home: Path) -> None:
        """The policy of the page in a site's own file."""
        allowed = self.tables["policy"][self.key]
        edited(home / "site.toml", (f"{self.key} = []", f"{self.key} = {json.dumps(allowed)}"))

    def ask(self, folder: Path) -> None:
        """The tables of the page in a coordinator's folder, or its source at every site."""
        path = folder / "federation.toml"
        text = path.read_text()
        if self.page == "algorithm":
            own = self.tables["algorithm"]
            text = text.replace('"fedavg"', f'"{own["name"]}"\nsettings = {{way = 0.25}}')
            assert own["settings"] == {"way": 0.25}
        if self.page == "model":
            assert self.tables["model"] == {"kind": "normed", "settings": {"width": 8}}
            text = MODEL.sub('kind = "normed"\nsettings = {width = 8}\n\n', text)
        if self.page == "filter":
            assert self.tables["privacy"] == {"filters": {"grid": {"step": 0.0001}}}
            start = text.index(OPEN)
            end = text.index("\n", start)
            text = text[:start] + "filters.grid = {step = 0.0001}" + text[end:]
        path.write_text(text)
        if self.page == "source":
            for home in (folder / "sites").iterdir():
                know_bands(home)


def know_bands(home: Path) -> None:
    """An expert who reads the grade off one feature, in place of his formula."""
    path = home / "knowledge.toml"
    text = path.read_text()
    start = text.index("[[predict.sources]]")
    end = re.compile(r"^\[+range", re.M).search(text, start).start()
    own = '[[predict.sources]]\nbands = "cuts.json"\nof = "Ro"\n\n'
    path.write_text(text[:start] + own + text[end:])
    (home / "cuts.json").write_text(json.dumps([round(e / 50, 3) for e in EDGES]))


EXAMPLES = [
    Example("algorithm", "algorithms"),
    Example("model", "models"),
    Example("filter", "filters"),
    Example("source", "sources"),
]
