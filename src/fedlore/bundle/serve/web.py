"""The page for people: one HTML file, its style and script inside, nothing from elsewhere."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files

from ...look.page import THEME


@dataclass(frozen=True)
class Page:
    """The page and the policy under which a browser shows it."""

    html: str
    policy: str

    @staticmethod
    def read() -> "Page":
        """The page as it is sent; only this very style and this very script may run in it."""
        folder = files(__package__) / "page"
        html, style, monitor, script = (
            (folder / name).read_text(encoding="utf-8")
            for name in ("page.html", "page.css", "monitor.js", "page.js")
        )
        return Page.join(html, THEME + style, script + monitor)

    @staticmethod
    def join(html: str, style: str, script: str) -> "Page":
        """Style and script put into the places that the page has for them."""
        whole = html.replace("/*style*/", style).replace("/*script*/", script)
        policy = (
            f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return Page(whole, policy)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
