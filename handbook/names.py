"""Every public name with its signature and its docstring, a page per module."""

import dataclasses
import importlib
import inspect
import re
import textwrap
from typing import Any

from .fields import comments_of
from .keys import escape

#: Module -> what a reader finds there. What others write against; the rest may change.
MODULES = {
    "fedlore": "What most programs need; a name is loaded on its first use.",
    "fedlore.knowledge": "What an expert says, as models of one's own and as files.",
    "fedlore.models": "What predicts: a network seen through a site's knowledge.",
    "fedlore.algorithms": "Federated algorithms, both halves of each in one class.",
    "fedlore.engine": "Training: in one call, or round by round.",
    "fedlore.privacy": "What hides single uploads, and what adds noise.",
    "fedlore.data": "Rows from files, and ways to deal them to sites.",
    "fedlore.bundle": "One site's model with its knowledge in one file.",
    "fedlore.sklearn": "Estimators for one site.",
    "fedlore.flower": "What the two halves of a Flower app call.",
    "fedlore_coke.blend": "The cheapest blend that makes a grade.",
    "fedlore.testing": "The laws for plug-ins of one's own.",
    "fedlore.experiments": "Approaches compared on the same sites, as rows that are kept.",
    "fedlore.report": "Tables, plots and pages made of such rows.",
}
#: Modules with fewer readers: what an application or a plug-in builds on, on one page.
BUILDING = {
    "fedlore.cli.commands": "How a package offers a command.",
    "fedlore.cli.federation": "A federation of processes on this machine, with what it says.",
    "fedlore.cli.options": "Options that several commands have.",
    "fedlore.cli.progress": "Progress of a command.",
    "fedlore.cli.screen": "What a command says and shows, in words or as JSON; exit codes.",
    "fedlore.config": "TOML into frozen dataclasses.",
    "fedlore.core.one_shot": "Sums of Gram matrices, and the model they give.",
    "fedlore.core.history": "Flat rows of results, read and written.",
    "fedlore.core.nets": "Networks.",
    "fedlore.core.rng": "Random numbers with an address.",
    "fedlore.core.scaler": "Standardised features.",
    "fedlore.core.store": "Files written whole or not at all.",
    "fedlore.core.tree": "Arithmetic of named tensors.",
    "fedlore.core.wire": "What travels between server and sites.",
    "fedlore.data.rows": "The reader of tables.",
    "fedlore.engine.lore": "The recipe.",
    "fedlore.errors": "What is raised.",
    "fedlore.federation.household": "Server and sites as processes of one machine.",
    "fedlore.federation.kits.kit": "A federation's folder and its sites' kits.",
    "fedlore.federation.processes": "Child processes and ports.",
    "fedlore.answers": "What may be answered: classes, or a number.",
    "fedlore.look.page": "One self-contained page.",
    "fedlore.look.plots": "Plots in the house's style.",
    "fedlore.look.tables": "Tables of text, and as Markdown.",
    "fedlore.models.own": "What a site learns without others.",
    "fedlore.report.published": "The paper's own numbers.",
}


#: What the source calls these, longest first.
_ALIASES = (("dict[str, dict[str, Tensor]]", "Payload"), ("dict[str, Tensor]", "Params"))


def page_path(module: str) -> str:
    return f"reference/api/{module}.md"


def public_names(module: str) -> list[str]:
    """What a module promises."""
    found = importlib.import_module(module)
    told = getattr(found, "__all__", None)
    if told is None:
        told = [
            name
            for name, value in vars(found).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module
        ]
    return sorted(name for name in told if not name.startswith("_"))


def write_names_page(module: str) -> str:
    """The page of one module as Markdown."""
    lines = [f"# {module}\n", f"{MODULES[module]}\n"]
    for name in public_names(module):
        value = getattr(importlib.import_module(module), name)
        lines += [f"## {name}\n", *_describe(name, value)]
    return "\n".join(lines)


def write_building_page() -> str:
    """What applications and plug-ins build on, in short."""
    lines = ["# To build on\n", "Smaller modules that an application or a plug-in may import.\n"]
    for module, about in BUILDING.items():
        lines += [f"## {module}\n", f"{about}\n"]
        for name in public_names(module):
            value = getattr(importlib.import_module(module), name)
            made = inspect.isclass(value) or callable(value)
            said = (inspect.getdoc(value) or "").split("\n")[0] if made else _short(value)
            lines.append(f"- `{name}`: {escape(said)}")
        lines.append("")
    return "\n".join(lines)


def _describe(name: str, value: Any) -> list[str]:
    if not (inspect.isclass(value) or callable(value)):
        return [f"```text\n{name} = {_short(value)}\n```\n"]
    lines = [f"```python\n{signature(name, value)}\n```\n", docstring(value)]
    if inspect.isclass(value):
        lines += _fields(value) + _methods(value)
    return lines


def signature(name: str, value: Any) -> str:
    """How it is called, over several lines where one is too long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    shown = [_parameter(one) for one in _with_stars(found)]
    back = "" if inspect.isclass(value) or found.return_annotation is found.empty else " -> "
    back += _annotation(found.return_annotation) if back else ""
    line = f"{name}({', '.join(shown)}){back}"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){back}"


def _with_stars(found: inspect.Signature) -> list[inspect.Parameter | str]:
    shown: list[inspect.Parameter | str] = []
    open_ = True
    for one in found.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.VAR_POSITIONAL:
            open_ = False
        if one.kind is one.KEYWORD_ONLY and open_:
            shown.append("*")
            open_ = False
        shown.append(one)
    return shown


def _parameter(one: inspect.Parameter | str) -> str:
    if isinstance(one, str):
        return one
    star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
    default = "" if one.default is one.empty else f" = {_short(one.default)}"
    return f"{star}{one.name}{kind}{default}"


def _annotation(hint: Any) -> str:
    text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text)
    for long, alias in _ALIASES:
        text = text.replace(long, alias)
    return text


def _short(value: Any) -> str:
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    text = " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def docstring(value: Any) -> str:
    """A docstring as Markdown: its examples become blocks."""
    text = inspect.getdoc(value) or ""
    if text.startswith(f"{getattr(value, '__name__', '')}("):  # what dataclasses write themselves
        return ""
    parts = []
    for part in text.split("\n\n"):
        if part.lstrip().startswith(">>>"):
            parts.append(f"```python\n{textwrap.dedent(part)}\n```")
        else:
            parts.append(part)
    return "\n\n".join(parts) + "\n"


def _fields(value: type) -> list[str]:
    if not dataclasses.is_dataclass(value):
        return []
    said = comments_of(value)
    rows = [(f.name, said.get(f.name, "")) for f in dataclasses.fields(value) if f.init]
    told = [f"| `{name}` | {escape(meaning)} |\n" for name, meaning in rows if meaning]
    return ["| field | meaning |\n|---|---|\n" + "".join(told)] if told else []


def _methods(value: type) -> list[str]:
    lines = []
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(member, property):
            told = first_line(member.fget)
            lines.append(f"- `{name}`" + (f": {told}" if told else ""))
        elif inspect.isfunction(plain):
            call = " ".join(signature(name, getattr(value, name)).split())
            call = call.replace("( ", "(").replace(", )", ")")
            told = first_line(plain)
            lines.append(f"- `{call}`" + (f": {told}" if told else ""))
    return ["\n".join(lines) + "\n"] if lines else []


def first_line(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
