"""Every form of the studio in a browser: added, changed, removed, undone."""

import pytest

from ..browser import browsing
from .keys import READY, leave, press, settled
from .process import opened
from .sites import TOML, site

pytestmark = pytest.mark.program("chromium")


def test_shapes_regions_soft_formulas_and_models_are_added_changed_and_removed(tmp_path):
    home = site(tmp_path / "plant", knowledge=f"ordered = true\n{TOML}")
    (home / "old.onnx").write_bytes(b"no model")  # a bad source locks nothing else
    with opened(home) as (address, _), browsing(tmp_path / "profile") as page:
        page.open(f"{address}#formulas")
        page.wait(READY)

        def source(side):
            get = "import('/page/desk.js').then(({desk}) => desk.now"
            return page.ask(f"{get}.{side})")

        def push(text):
            button = (
                f"[...document.querySelectorAll('button')].find(b => b.textContent === '{text}')"
            )
            page.wait(f"{button} !== undefined")
            page.ask(f"{button}.click()")
            settled(page)

        def put(label, value):
            """Another value into the last field of this name, as a person leaves it."""
            every = "[...document.querySelectorAll('main label')]"
            named = f"{every}.filter(l => l.textContent === '{label}').at(-1)"
            page.wait(f"{named} !== undefined")
            page.ask(
                f"(() => {{ const box = document.getElementById({named}.htmlFor); box.focus(); "
                f"box.value = {value!r}; box.dispatchEvent(new Event('change')); }})()"
            )
            settled(page)

        push("Add a direction")
        page.wait("document.querySelector('main .curve') !== null || "
                  "document.querySelector('main').innerText.includes('too few')")  # fmt: skip
        put("Its effect", "arch")
        assert source("shapes") == [{"feature": "ash", "effect": "arch"}]  # its rows say where
        put("Where it turns", "9, 11")
        arch = {"feature": "ash", "effect": "arch", "turns_at": [9, 11]}
        assert source("shapes") == [arch]
        put("Its effect", "lowers")  # which has no turn
        assert source("shapes") == [{"feature": "ash", "effect": "lowers"}]
        put("Only in rows where (empty: everywhere)", "ash > 8")
        assert source("shapes") == [{"feature": "ash", "effect": "lowers", "where": "ash > 8"}]
        assert page.ask("document.activeElement.localName") == "textarea"  # nobody is thrown out
        put("Only in rows where (empty: everywhere)", "nonsense >")
        page.wait("document.querySelector('aside').innerText.includes('[shape] source 1')")
        page.ask("document.getElementById('undo').click()")
        settled(page)
        page.wait("!document.querySelector('aside').innerText.includes('[shape]')")

        push("Add a range between formulas")
        put("At most", "ash")
        put("Edges that cut the number into classes (2 numbers)", "1, 2")
        put("Holds in how many cases", "90 %")
        assert source("sources.range[1]") == {
            "lower": "0", "upper": "ash", "edges": [1, 2], "confidence": 0.9,
        }  # fmt: skip
        push("Add")  # the file that is no model
        page.wait("document.querySelector('aside').innerText.includes('old.onnx')")
        assert source("sources.predict.length") == 2 and source("schema.classes.length") == 3

        page.ask("location.hash = '#settings'")
        push("Add a region")
        put("Rows where", "seam != 'C'")
        put("λ there, 0 to 1", "0.8")
        assert source("regions") == [{"where": "seam != 'C'", "trust": 0.8}]
        push("Remove")
        assert source("settings.trust") == 0.3 and source("regions") == []

        page.ask("location.hash = '#formulas'")
        for _ in range(3):  # a range, a direction, a model
            push("Remove")
        assert (source("shapes"), source("sources.predict.length")) == ([], 1)
        page.ask("document.activeElement.blur()")
        for _ in range(20):
            press(page, "z", control=True)
        page.wait(
            "import('/page/desk.js').then(({desk}) => desk.turn.then(() => desk.state === 'clean'))"
        )
        assert source("draft") == []
        assert [one for one in page.complaints if "422" not in one] == []  # a region of nonsense
        leave(page)
