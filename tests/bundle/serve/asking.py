"""Ask a service in this process, without a socket."""

import asyncio

import httpx


def ask(app, method, path, *, base="http://127.0.0.1", **more):
    """One request and its answer."""
    return ask_all(app, [(method, path, more)], base=base)[0]


def ask_all(app, requests, *, base="http://127.0.0.1"):
    """Requests one after the other, each (method, path, settings of httpx)."""

    async def talk():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return [await client.request(m, path, **more) for m, path, more in requests]

    return asyncio.run(talk())


def predict(app, row, **more):
    return ask(app, "POST", "/predict", json=row, **more)
