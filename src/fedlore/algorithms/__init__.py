"""Federated algorithms: both halves of each in one small class."""

from .alone import Alone
from .base import Algorithm, Plan, Work
from .fedavg import FedAvg
from .solo import Desk, Solo

__all__ = ["Algorithm", "Alone", "Desk", "FedAvg", "Plan", "Solo", "Work"]
