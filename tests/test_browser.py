"""Pages are looked at, or somebody said aloud that they are not."""

import pytest

from .browser import chromium


def test_without_chromium_a_test_fails(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("FEDLORE_NO_BROWSER", raising=False)
    with pytest.raises(pytest.fail.Exception, match="FEDLORE_NO_BROWSER=1"):
        chromium()


def test_a_machine_without_one_can_say_so(monkeypatch):
    monkeypatch.setenv("FEDLORE_NO_BROWSER", "1")
    with pytest.raises(pytest.skip.Exception, match="not looked at"):
        chromium()
