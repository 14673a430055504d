"""Rows that wait are answered together: one row costs the model nearly as much as thirty."""

import asyncio
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import Answers
from .answer import Answering, Silent

#: Rows that are answered in the event loop. More go to a thread, so that others need not wait.
DIRECT = 32

_Told = tuple[list[dict[str, Any]], Sequence[bool]]  # values for JSON, and whether in scope


class Together:
    """The queue before a bundle; it belongs to one event loop.

    A request that comes alone is answered at once and alone. Those that arrive while another is
    being answered wait for it, and then share one pass through knowledge and network.
    """

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._waiting: list[tuple[Tensor, asyncio.Future[_Told]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._many = asyncio.Lock()

    async def __call__(self, x: Tensor) -> _Told:
        """Answers for rows in raw units, (n, d)."""
        if len(x) > DIRECT:
            async with self._many:  # two at once would only fight for the interpreter
                return _tell(*await asyncio.to_thread(self._answering, x))
        answer: asyncio.Future[_Told] = asyncio.get_running_loop().create_future()
        self._waiting.append((x, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            rows, some = 0, []
            while self._waiting and rows + len(self._waiting[0][0]) <= DIRECT:
                some.append(self._waiting.pop(0))
                rows += len(some[-1][0])
            self._answer(some)
            await asyncio.sleep(0)  # let answers out and new requests in

    def _answer(self, some: list[tuple[Tensor, asyncio.Future[_Told]]]) -> None:
        try:
            values, scope = _tell(*self._answering(torch.cat([x for x, _ in some])))
        except Silent as error:
            if len(some) > 1:  # one request's bad row is no other's business
                for one in some:
                    self._answer([one])
                return
            _settle(some[0][1], error)
        except Exception as error:  # each asker gets the failure, and the queue goes on
            for _, answer in some:
                _settle(answer, error)
        else:
            start = 0
            for x, answer in some:
                end = start + len(x)
                _settle(answer, (values[start:end], scope[start:end]))
                start = end


def _settle(answer: "asyncio.Future[_Told]", result: _Told | Exception) -> None:
    if answer.done():  # whoever asked has left
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _tell(values: list[dict[str, Any]], found: Answers) -> _Told:
    return values, found.in_scope.tolist()
