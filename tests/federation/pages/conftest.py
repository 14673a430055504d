"""A federation whose sites have something to show."""

import pytest

from ..inside import Inside, edited, small

NOISE = ("[privacy]", '[privacy]\ndp = {epsilon = 40, delta = 1e-3, level = "site", clip = 1.0}')


@pytest.fixture(scope="package")
def trained(tmp_path_factory):
    """Three sites after three rounds with noise; one of them refuses."""
    folder = small(tmp_path_factory.mktemp("fed") / "fed")
    edited(folder / "federation.toml", NOISE, ("scale = true", "scale = false"))
    home = folder / "sites" / "plant-3"
    edited(home / "site.toml", ("min_participants = 2", "min_participants = 4"))
    with pytest.MonkeyPatch.context() as patch:
        Inside(folder, patch).train()
    return folder
