"""Signing in the studio, and runs that refuse drafts."""

import pytest

from fedlore import Knowledge
from fedlore.errors import KnowledgeError
from fedlore.experiments.sites import gather
from fedlore.federation.site.folder import Kit, SiteFile
from fedlore.studio import make_studio

from ..bundle.serve.asking import ask
from .sites import PREDICT, desk

pytest.importorskip("cryptography")
SIGN = {"signer": "Ann", "passphrase": "coke and coal"}


def test_what_is_saved_is_signed_and_a_run_refuses_drafts(tmp_path):
    home = tmp_path / "sites" / "plant"
    app = make_studio(desk(home, train="ash,seam,grade\n" + "15,A,III\n10,C,II\n7,B,I\n" * 8))
    setting = tmp_path / "federation.toml"
    setting.write_text('name = "a"\n[run]\nsites = "sites"\nsigned = true\n')
    with pytest.raises(KnowledgeError, match="nobody has signed it"):
        gather(setting)
    assert "nobody has signed" in ask(app, "GET", "/api/signature").json()["fault"]
    assert ask(app, "POST", "/api/sign", json=SIGN).json()["signer"] == "Ann"
    assert ask(app, "GET", "/api/signature").json()["signer"] == "Ann"
    before = gather(setting).digest
    (home / "studio" / "draft.tmp").write_text("typed")
    assert gather(setting).digest == before  # drafts are no part of a run
    (home / "predict.csv").write_text(PREDICT.replace("> 14", "> 13"))
    with pytest.raises(KnowledgeError, match="no longer says what Ann signed"):
        gather(setting)


def test_a_draft_is_saved_before_it_is_signed(tmp_path):
    one = desk(tmp_path)
    one.change(one.token, {"predict.csv": b"ash,then\n> 1,I\n"}, who="", what="rules")
    refused = ask(make_studio(one), "POST", "/api/sign", json=SIGN)
    assert refused.status_code == 422 and "save it first" in refused.json()["error"]
    assert not (tmp_path / "studio" / "key.pem").exists()


def test_a_deployed_site_refuses_drafts_and_other_keys(tmp_path):
    app = make_studio(desk(tmp_path))
    about = {"name": "a", "address": "localhost:1", "knowledge": "knowledge.toml", "signed": True}
    asked = Knowledge.read(tmp_path / "knowledge.toml").require_schema()
    with pytest.raises(KnowledgeError, match="nobody has signed it"):
        Kit(tmp_path, SiteFile(**about)).knowledge(asked)
    key = ask(app, "POST", "/api/sign", json=SIGN).json()["key"]
    assert Kit(tmp_path, SiteFile(**about, signers=(key,))).knowledge(asked).trust == 0.3
    with pytest.raises(KnowledgeError, match="a key that is not named here"):
        Kit(tmp_path, SiteFile(**about, signers=("00" * 32,))).knowledge(asked)
