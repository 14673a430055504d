"""Who the other sites are, known from them and not from the coordinator.

Which key is enrolled under which name is the coordinator's word. So a site makes one more, which
never leaves it, and signs with that the public keys of every round of secure aggregation. Whoever
has put the others' `identity.pub` into its folder `peers/` notices a coordinator that swaps keys.
"""

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ...core.store import write_private, write_whole
from ...errors import FedloreError
from ..keys import openssh_pair, read_key

KEY, PUBLIC, FOLDER = "identity.key", "identity.pub", "peers"


class Peers:
    """A site's own identity, and those of the others that it was given."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name, self._key = name, _own(folder)
        self._known: dict[str, Ed25519PublicKey] = {
            path.name.removesuffix(".pub"): read_key(
                path, Ed25519PublicKey, wanted=f"another site's {PUBLIC}"
            )
            for path in known_peers(folder)
        }

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def check(self, site: str, message: bytes, signature: bytes) -> None:
        """Refuse another key than the peer's own; without any peers the coordinator is trusted."""
        if not self._known or site == self._name:
            return
        if site not in self._known:
            raise FedloreError(f"this site has no identity of '{site}' in its folder {FOLDER}/")
        try:
            self._known[site].verify(signature, message)
        except InvalidSignature:
            raise FedloreError(
                f"the keys of '{site}' in this round are not signed by the identity that this site "
                "knows: the site has a new one, or somebody in between swaps keys"
            ) from None


def known_peers(folder: Path) -> list[Path]:
    """The identities of other sites in a site's folder."""
    return sorted((folder / FOLDER).glob("*.pub"))


def _own(folder: Path) -> Ed25519PrivateKey:
    path = folder / KEY
    if not path.exists():
        private, public = openssh_pair(Ed25519PrivateKey.generate())
        write_private(path, private)
        write_whole(folder / PUBLIC, public)
    found: Ed25519PrivateKey = read_key(path, Ed25519PrivateKey, wanted="an Ed25519 key")
    return found
