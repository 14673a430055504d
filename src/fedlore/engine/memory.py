"""What a client remembers between rounds, committed only when the server used the round."""

from dataclasses import dataclass, field

from ..core.tree import Payload


@dataclass(frozen=True)
class Memory:
    """Two versions: before the last round answered and after it.

    SCAFFOLD and Scaffnew break when a site remembers a round that the server dropped. So each
    task names the last accepted round, and that decides which version counts.
    """

    round: int = 0  # the last round answered
    before: Payload = field(default_factory=dict)
    after: Payload = field(default_factory=dict)

    def settle(self, accepted: int) -> Payload:
        """The version that the server knows of."""
        return self.after if accepted >= self.round else self.before
