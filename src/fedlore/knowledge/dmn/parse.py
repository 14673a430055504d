"""The XML of a DMN file as decision tables, their cells still in FEEL.

Nothing outside the file is ever looked at: a document type, and with it every entity, is refused
before its first character is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from ...errors import KnowledgeError

LARGEST = 16 * 2**20  # bytes
MOST_ELEMENTS = 500_000
DEEPEST = 60
#: The versions of the standard whose decision tables are alike, by their namespaces.
VERSIONS = {
    "http://www.omg.org/spec/DMN/20151101/dmn.xsd": "1.1",
    "http://www.omg.org/spec/DMN/20151101/dmn11.xsd": "1.1",
    "http://www.omg.org/spec/DMN/20180521/MODEL/": "1.2",
    "https://www.omg.org/spec/DMN/20191111/MODEL/": "1.3",
    "https://www.omg.org/spec/DMN/20211108/MODEL/": "1.4",
    "https://www.omg.org/spec/DMN/20230324/MODEL/": "1.5",
    "https://www.omg.org/spec/DMN/20230324/DMN15.xsd": "1.5",
}
OWN = "urn:fedlore:dmn"  # of attributes that fedlore adds and other tools pass over
HIT_POLICIES = ("UNIQUE", "FIRST", "PRIORITY", "ANY", "COLLECT", "RULE ORDER", "OUTPUT ORDER")


@dataclass
class Element:
    """A node of the file."""

    name: str  # without its namespace
    space: str
    attributes: dict[str, str]  # those of other namespaces as `space}name`
    children: list[Element] = field(default_factory=list)
    text: str = ""
    line: int = 0

    def all(self, name: str) -> list[Element]:
        """The children of a name, in the namespace of this element."""
        return [one for one in self.children if (one.name, one.space) == (name, self.space)]

    def first(self, name: str) -> Element | None:
        return next(iter(self.all(name)), None)

    def says(self, name: str) -> str:
        """The text inside a child: its own, or that of its <text>."""
        found = self.first(name)
        if found is None:
            return ""
        inner = found.first("text")
        return (found if inner is None else inner).text.strip()

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class DmnColumn:
    """An input or an output of a table."""

    name: str  # the expression of an input, the name of an output
    label: str
    kind: str  # number, string, boolean, what the file says else, or empty
    values: str  # unary tests that limit it; of an output its values in the order of priority
    default: str = ""  # of an output


@dataclass(frozen=True)
class DmnRule:
    """A row, in FEEL."""

    tests: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]  # by the annotations of the table
    line: int  # of the file


@dataclass(frozen=True)
class DmnTable:
    """A decision table as it stands in the file."""

    name: str  # of its decision
    hit: str
    aggregation: str
    inputs: tuple[DmnColumn, ...]
    outputs: tuple[DmnColumn, ...]
    rules: tuple[DmnRule, ...]
    annotations: tuple[str, ...]
    asks: tuple[str, ...]  # decisions whose answers it takes in
    own: dict[str, str]  # what fedlore wrote beside it
    line: int


@dataclass(frozen=True)
class DmnFile:
    """All that is read of a file."""

    version: str
    tables: tuple[DmnTable, ...]
    others: tuple[str, ...]  # what is no decision table, in words


def read_dmn(data: bytes, name: str = "the file") -> DmnFile:
    """The decision tables of a DMN file, 1.1 to 1.5."""
    root = _parse(data, name)
    if root.name != "definitions" or root.space not in VERSIONS:
        known = ", ".join(sorted(set(VERSIONS.values())))
        said = f"<{root.name}> of the namespace '{root.space[:80]}'" if root.space else root.name
        raise KnowledgeError(f"{name}: not a DMN file of a known version ({known}): it is {said}")
    types = {one.attributes.get("name", ""): one for one in root.all("itemDefinition")}
    tables, others = [], []
    decisions = {one.attributes.get("id", ""): one for one in root.all("decision")}
    for decision in decisions.values():
        table = decision.first("decisionTable")
        if table is not None:
            tables.append(_table(decision, table, types, decisions, name))
            continue
        logic = [one.name for one in decision.children if one.name in _LOGIC]
        kind = logic[0] if logic else "nothing"
        others.append(f"decision '{_name(decision)}' is made by {_LOGIC.get(kind, kind)}")
    for kind, words in _PARTS.items():
        count = len(root.all(kind))
        others += [f"{count} {words}{'' if count == 1 else 's'}"] if count else []
    return DmnFile(VERSIONS[root.space], tuple(tables), tuple(others))


_LOGIC = {
    "literalExpression": "an expression",
    "invocation": "a call of a business knowledge model",
    "context": "a context",
    "relation": "a relation",
    "functionDefinition": "a function",
    "list": "a list",
    "conditional": "if, then and else",
    "for": "a loop",
    "every": "a test of every item",
    "some": "a test of some item",
    "filter": "a filter",
}
_PARTS = {
    "businessKnowledgeModel": "business knowledge model",
    "decisionService": "decision service",
    "import": "import of another file",
}


def _parse(data: bytes, name: str) -> Element:
    """The tree of the file, within bounds."""
    if len(data) > LARGEST:
        raise KnowledgeError(f"{name}: the file is larger than {LARGEST >> 20} MiB")
    stack: list[Element] = []
    roots: list[Element] = []
    count = 0
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True

    def refuse(*_: Any) -> int:
        raise KnowledgeError(
            f"{name}: it declares a document type or entities, which a DMN file has no use for and "
            "which could pull in other files: remove the DOCTYPE"
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS or len(stack) >= DEEPEST:
            what = f"{MOST_ELEMENTS} elements" if count > MOST_ELEMENTS else f"{DEEPEST} levels"
            raise KnowledgeError(f"{name}: it has more than {what}")
        space, _, tag = tag.rpartition("}")
        made = Element(tag, space, attributes, line=parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(made)
        stack.append(made)

    def end(_: str) -> None:
        stack.pop()

    def words(text: str) -> None:
        if stack:
            stack[-1].text += text

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = words
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise KnowledgeError(f"{name}: not readable as XML: {error}") from None
    return roots[0]


def _name(element: Element) -> str:
    return element.attributes.get("name") or element.attributes.get("id", "")


def _table(
    decision: Element,
    table: Element,
    types: dict[str, Element],
    decisions: dict[str, Element],
    name: str,
) -> DmnTable:
    said = table.attributes
    hit = said.get("hitPolicy", "UNIQUE")
    if hit not in HIT_POLICIES:
        raise KnowledgeError(
            f"{name}, line {table.line}: '{hit[:40]}' is no hit policy: {', '.join(HIT_POLICIES)}"
        )
    variable = decision.first("variable")
    outputs = table.all("output")
    usual = said.get("typeRef") or ("" if variable is None else variable.attributes.get("typeRef"))
    rules = tuple(
        DmnRule(
            tuple(_entry(one) for one in rule.all("inputEntry")),
            tuple(_entry(one) for one in rule.all("outputEntry")),
            tuple(_entry(one) for one in rule.all("annotationEntry")) or _described(rule),
            rule.line,
        )
        for rule in table.all("rule")
    )
    found = DmnTable(
        _name(decision),
        hit,
        said.get("aggregation", ""),
        tuple(_input(one, types) for one in table.all("input")),
        tuple(_output(one, types, usual or "", decision, len(outputs)) for one in outputs),
        rules,
        tuple(one.attributes.get("name", "") for one in table.all("annotation")),
        tuple(_decisions_asked(decision, decisions)),
        {k.removeprefix(f"{OWN}}}"): v for k, v in said.items() if k.startswith(f"{OWN}}}")},
        table.line,
    )
    for rule in rules:
        if (len(rule.tests), len(rule.outputs)) != (len(found.inputs), len(found.outputs)):
            raise KnowledgeError(
                f"{name}, line {rule.line}: the rule has {len(rule.tests)} input and "
                f"{len(rule.outputs)} output entries, the table {len(found.inputs)} and "
                f"{len(found.outputs)}"
            )
    return found


def _entry(element: Element) -> str:
    inner = element.first("text")
    return (element if inner is None else inner).text.strip()


def _described(rule: Element) -> tuple[str, ...]:
    """What older files say of a rule in place of annotations."""
    found = rule.says("description")
    return (found,) if found else ()


def _input(element: Element, types: dict[str, Element]) -> DmnColumn:
    expression = element.first("inputExpression")
    kind = "" if expression is None else expression.attributes.get("typeRef", "")
    text = element.says("inputExpression")
    plain, limits = _resolve(kind, types)
    values = element.says("inputValues") or limits
    return DmnColumn(text, element.attributes.get("label", ""), plain, values)


def _output(
    element: Element, types: dict[str, Element], usual: str, decision: Element, count: int
) -> DmnColumn:
    alone = usual if count == 1 else ""
    plain, limits = _resolve(element.attributes.get("typeRef", "") or alone, types)
    name = element.attributes.get("name") or element.attributes.get("label") or _name(decision)
    values = element.says("outputValues") or limits
    label = element.attributes.get("label", "")
    return DmnColumn(name, label, plain, values, element.says("defaultOutputEntry"))


def _resolve(kind: str, types: dict[str, Element], depth: int = 10) -> tuple[str, str]:
    """The built-in type behind a name, and the values that a type of the file allows."""
    bare = re.sub(r"^[\w.-]+:(?!$)", "", kind) if kind not in types else kind
    one = types.get(bare)
    if one is None or not depth:
        return _KINDS.get(bare.lower(), bare), ""
    if one.attributes.get("isCollection") == "true" or one.all("itemComponent"):
        return f"{bare} (a list or a structure)", ""
    plain, limits = _resolve(one.says("typeRef"), types, depth - 1)
    return plain, one.says("allowedValues") or limits


_KINDS = dict.fromkeys(("number", "integer", "int", "long", "double", "decimal", "float"), "number")
_KINDS |= {"string": "string", "boolean": "boolean", "any": "", "": ""}


def _decisions_asked(decision: Element, decisions: dict[str, Element]) -> Iterator[str]:
    for requirement in decision.all("informationRequirement"):
        needed = requirement.first("requiredDecision")
        if needed is not None:
            key = needed.attributes.get("href", "").removeprefix("#")
            yield _name(decisions[key]) if key in decisions else key
