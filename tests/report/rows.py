"""Small made-up rows whose means can be worked out by hand."""

APPROACHES = ("ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask", "lore")


def row(approach="FL", client="a", seed=0, ta=0.5, **more) -> dict:
    return {"approach": approach, "client": client, "seed": seed, "ta": ta, **more}


def table(*, dataset="covtype", protocol="fair", kind="oracle", share=0.01, trust=None, seeds=2):
    """Seven approaches, two clients: approach i has TA 0.50 + 0.05 i, client b 0.10 more."""
    return [
        row(
            name,
            client,
            seed,
            round(0.5 + 0.05 * i + 0.1 * (client == "b") + 0.01 * seed, 4),
            pov=0.0 if "KM" in name or name in ("FL+mask", "lore") else 0.1,
            model={"ML": "local", "P-KM": "expert", "MLwKM": "local"}.get(name, "shared"),
            **{"dataset": dataset, "protocol": protocol, "range": kind},
            **{"share": share, "trust": trust, "config": "abc123", "versions": "fedlore 0.1.0"},
        )
        for i, name in enumerate(APPROACHES)
        for client in ("a", "b")
        for seed in range(seeds)
    ]


def history() -> list[dict]:
    return [
        row(name, client, seed, 0.3 + 0.01 * at, round=at)
        for name in ("FL", "lore")
        for client in ("a", "b")
        for seed in (0, 1)
        for at in (1, 5, 10)
    ]


def confusion(classes=3) -> list[dict]:
    return [
        {"approach": "lore", "client": "a", "seed": 0, "label": l, "predicted": p, "count": n}
        for l in range(classes)
        for p, n in ((l, 8), ((l + 1) % classes, 2))
    ]
