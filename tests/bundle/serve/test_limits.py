"""Who may ask: tokens, hosts, sizes."""

import socket

import pytest

from fedlore import FedloreError
from fedlore.bundle.serve import ServeLimits
from fedlore.bundle.serve.guard import bytes_of, check_host, is_loopback, names_of, read_token

from .sites import TOKEN


def test_sizes_are_read_as_people_write_them():
    assert [bytes_of(t) for t in ("1MB", "2 kB", "3", "4b", "1g")] == [10**6, 2000, 3, 4, 10**9]
    for wrong in ("", "MB", "1.5MB", "-1", "one"):
        with pytest.raises(FedloreError, match="a size must be a whole number"):
            bytes_of(wrong)


@pytest.mark.parametrize("name", ["body", "rows"])
def test_limits_must_leave_something(name):
    with pytest.raises(FedloreError, match=f"max-{name} must be at least 1, got 0"):
        ServeLimits(**{name: 0})


def test_a_file_goes_before_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert read_token(file, "another-one-of-some-length") == TOKEN
    assert read_token(None, TOKEN) == TOKEN
    assert read_token(None, None) is None


@pytest.mark.parametrize("token", ["", "short", "with a blank in the middle", "é" * 20])
def test_a_weak_token_is_refused(token):
    with pytest.raises(FedloreError, match="a token must have at least 16 ASCII characters"):
        read_token(None, token)


def test_a_token_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FedloreError, match="cannot read the token file"):
        read_token(tmp_path / "none", TOKEN)


def test_other_machines_need_a_token_or_a_word():
    assert is_loopback("127.0.0.1") and is_loopback("127.0.0.2") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    with pytest.raises(FedloreError, match="can be reached from other machines: set a token"):
        check_host("0.0.0.0", token=None, insecure=False)
    check_host("0.0.0.0", token=TOKEN, insecure=False)
    check_host("0.0.0.0", token=None, insecure=True)
    check_host("127.0.0.1", token=None, insecure=False)


def test_names_are_checked_only_where_nothing_else_guards():
    assert "127.0.0.1" in names_of("127.0.0.1", token=None, insecure=False)
    assert names_of("127.0.0.1", token=TOKEN, insecure=False) is None
    assert names_of("0.0.0.0", token=None, insecure=True) is None


def test_a_name_with_one_address_outside_is_no_loopback(monkeypatch):
    found = [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.1", "192.0.2.7")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert not is_loopback("both")
    with pytest.raises(FedloreError, match="'both' can be reached from other machines"):
        check_host("both", token=None, insecure=False)
