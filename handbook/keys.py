"""One page per file that people write, from the dataclasses that read it."""

from dataclasses import dataclass

from fedlore.algorithms.catalog import ALGORITHMS
from fedlore.federation.settings import Federation
from fedlore.federation.site.folder import SiteFile
from fedlore.knowledge.files import KnowledgeDocument
from fedlore.knowledge.sources.catalog import SOURCE_KINDS
from fedlore_coke.blend.mixing import MIXING_RULES, Override

from .fields import Key, first_sentence, keys_of

_HEAD = "| key | what it is | default | meaning |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class FilePage:
    """A file and what reads it."""

    name: str
    about: str
    roots: tuple[tuple[str, type], ...]  # a heading, and the dataclass of the whole file
    parts: tuple[tuple[str, str, type], ...] = ()  # heading, sentence, dataclass of one table

    @property
    def path(self) -> str:
        return f"reference/{self.name.removesuffix('.toml')}.md"


def file_pages() -> list[FilePage]:
    """The four files, with the kinds of tables that their lists hold."""
    sources: dict[type, list[str]] = {}
    for key, kind in SOURCE_KINDS.items():
        sources.setdefault(kind.entry, []).append(key)
    return [
        FilePage(
            "knowledge.toml",
            "What one site's expert knows. It is written by hand or by `fedlore draft`, checked by "
            "`fedlore lint`, and never leaves the site.",
            (("For classes", KnowledgeDocument), ("For a number", KnowledgeDocument)),
            tuple(
                (
                    "A source with " + " or ".join(f"`{key}`" for key in keys),
                    f"As a source of: {', '.join(SOURCE_KINDS[keys[0]].asked)}.",
                    entry,
                )
                for entry, keys in sources.items()
            ),
        ),
        FilePage(
            "federation.toml",
            "One file for `fedlore run` in one process and for a deployed federation. Every key "
            "has a default; a deployed one needs `name`, `address` and `schema`.",
            (("The whole file", Federation),),
            tuple(
                (f"`[algorithm.settings]` of `{name}`", first_sentence(make) + ".", make)
                for name, make in ALGORITHMS.items()
            ),
        ),
        FilePage(
            "site.toml",
            "A site's own file in its kit. Paths are relative to it; nothing in them leaves the "
            "site.",
            (("The whole file", SiteFile),),
        ),
        FilePage(
            "mixing.toml",
            "How coals mix, for `fedlore blend --mixing`, where the rule that a feature's name "
            "stands for is not the right one.",
            (("The whole file", Override),),
            tuple(
                (f'`rule = "{name}"`', first_sentence(rule) + ".", rule)
                for name, rule in MIXING_RULES.items()
            ),
        ),
    ]


def write_file_page(page: FilePage) -> str:
    """The page of one file as Markdown."""
    lines = [f"# {page.name}\n", f"{page.about}\n"]
    lines.append("A key that does not exist is an error that names the nearest one that does.\n")
    seen: set[type] = set()
    for heading, root in page.roots:
        lines += [f"## {heading}\n", _table(keys_of(root))]
        lines += _below(root, "", seen)
    for heading, sentence, part in page.parts:
        found = keys_of(part)
        lines += [f"## {heading}\n", f"{sentence}\n"]
        lines.append(_table(found) if found else "No keys of its own.\n")
        lines += _below(part, "", seen)
    return "\n".join(lines)


def _below(root: type, path: str, seen: set[type]) -> list[str]:
    """The tables inside a table, each once."""
    lines: list[str] = []
    for key in keys_of(root):
        for inside in key.below:
            if inside in seen:
                continue
            seen.add(inside)
            name = f"{path}{key.name}"
            brackets = f"[[{name}]]" if key.kind.startswith("list") else f"[{name}]"
            lines += [f"### `{brackets}`\n", f"{first_sentence(inside)}.\n"]
            lines.append(_table(keys_of(inside)))
            lines += _below(inside, f"{name}.", seen)
    return lines


def _table(keys: list[Key]) -> str:
    return _HEAD + "".join(
        f"| `{k.name}` | {k.kind} | {k.default} | {escape(k.meaning)} |\n" for k in keys
    )


def escape(text: str) -> str:
    """Text that stays in its cell."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
