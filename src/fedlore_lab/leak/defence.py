"""The filters of an audited setting, made as a federation makes them."""

from collections.abc import Sequence

from fedlore.engine import Client
from fedlore.privacy import Dp, Filter, Ledger, NoiseFilter

from .settings import LeakSetting

DELTA = 1e-5


def leak_filters(setting: LeakSetting, clients: Sequence[Client], rounds: int) -> list[Filter]:
    """Site-level noise in shares at the sites, whose sum alone the server sees.

    Secure aggregation and encryption change nothing in the sum beyond rounding, so that for them
    the audit looks at the sum itself.
    """
    if setting.epsilon is None:
        return []
    dp = Dp(setting.epsilon, DELTA, clip=setting.clip)
    noise = dp.multiplier(rounds)
    ledgers = {client.id: Ledger() for client in clients}
    return [NoiseFilter(dp, noise, len(clients), ledgers.__getitem__, "leak audit")]
