"""The page of the service and axe-core's rules, before and after an answer."""

import pytest

from fedlore.bundle import write_bundle

from ...accessible import axe, violations
from ...browser import browsing
from .process import INSIST, serving
from .sites import grades, number

pytestmark = pytest.mark.program("chromium")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("made", [grades, number])
def test_the_page_breaks_no_rule_of_accessibility(tmp_path, made, dark):
    script = axe()
    row = {grades: "99\t1000\tA", number: "0.5\t0"}[made]
    write_bundle(made(), tmp_path / "plant.lore")
    monitor = ("--monitor", str(tmp_path / "a.monitor"))
    with (
        serving(tmp_path / "plant.lore", *INSIST, *monitor) as service,
        browsing(tmp_path / "profile") as page,
    ):
        page.open(service.address, width=400, dark=dark)
        page.wait("!document.getElementById('main').hidden")
        page.wait("document.querySelectorAll('#questions tr').length")
        assert violations(page, script) == []
        page.fill("paste", row)
        page.ask("document.getElementById('ask').click()")
        page.wait("!document.getElementById('found').hidden")
        assert violations(page, script) == []


def test_the_rules_find_what_is_wrong(tmp_path):
    (tmp_path / "bad.html").write_text("<title>x</title><img src='data:,'><p>text")
    with browsing(tmp_path / "profile") as page:
        page.open(tmp_path / "bad.html")
        found = " ".join(violations(page, axe()))
    assert "image-alt" in found and "html-has-lang" in found
