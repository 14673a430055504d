"""fedlore update: other rules or another λ for a trained model, without training it again."""

from pathlib import Path
from typing import Annotated

import typer

from ..answers.scores import show_scores
from ..bundle import Bundle, read_bundle, write_bundle
from ..bundle.ensemble import member_weights
from ..bundle.knowledge import read_signature, signer_words
from ..bundle.predict import read_scored, score_bundle
from ..bundle.update import update_bundle as renew
from ..errors import ConfigError
from ..knowledge.shapes.shape import promised_shapes
from ..look.tables import TextTable
from ..words import phrase
from .lint import AcceptOption, check_with_rows, refuse_errors
from .options import PluginOption
from .screen import Screen, current_screen


def update_command(
    bundle: Annotated[Path, typer.Argument(help="A .lore file, or the folder of a bundle.")],
    knowledge: Annotated[Path | None, typer.Argument(help="The new knowledge.toml.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the new bundle.")] = None,
    trust: Annotated[float | None, typer.Option(help="Another λ.")] = None,
    data: Annotated[Path | None, typer.Option(help="Labelled rows: scores and an audit.")] = None,
    client: Annotated[str | None, typer.Option(help="A new name, for another site.")] = None,
    accept: AcceptOption = False,
    plugins: PluginOption = None,
) -> None:
    """Replace the rules or λ of a bundle, after an audit, with scores before and after."""
    if knowledge is None and trust is None:
        raise ConfigError("say what changes: a knowledge.toml, --trust, or both")
    if out is None:
        raise ConfigError("say where to write the new bundle: --out NAME.lore")
    old = read_bundle(bundle, plugins=plugins or ())
    screen, scores = current_screen(), dict[str, dict[str, float]]()
    if knowledge is not None:
        _audit(knowledge, data, screen, accept=accept)
    new = renew(old, knowledge, trust=trust, client=client)
    if data is not None:
        rows = read_scored(old, data)
        if rows.finding is not None:
            screen.remark(f"{rows.finding.place}: {rows.finding.message}")
        before, after = (score_bundle(one, rows) for one in (old, new))
        new = renew(old, knowledge, trust=trust, client=client, metrics=after)
        scores = {"before": before, "after": after}
        _compare(before, after, screen)
    was, now = (one.personal.knowledge.trust_at_prediction for one in (old, new))
    if trust is None and new.personal.ensemble is None and was != now:
        screen.say(
            f"λ at prediction was {was:g} and is now "
            f"{now:g}, as the new file says (--trust overrides it)"
        )
    if new.personal.ensemble is not None:
        was, now = (one.personal.reliance for one in (old, new))
        kept = "the weights of the ensemble stay" if was == now else "the ensemble's weights"
        screen.say(
            f"{kept}: {phrase('part.member-weights', shares=member_weights(new.personal.ensemble))}"
        )
    if new.personal.knowledge.row_trust is not None:
        screen.say(f"λ row by row: {new.personal.knowledge.row_trust}")
    elif old.personal.knowledge.row_trust is not None:
        screen.say(f"λ is one number now; it was {old.personal.knowledge.row_trust}")
    _say_shapes(old, new, screen)
    _say_signed(old, new, screen)
    write_bundle(new, out)
    screen.say(f"written to {out}")
    screen.say(f"fingerprint {new.fingerprint}")
    made = {"bundle": out, "fingerprint": new.fingerprint, "trust": now, "scores": scores}
    screen.give(made | {"shapes": promised_shapes(new.personal.knowledge)})


def _say_shapes(old: Bundle, new: Bundle, screen: Screen) -> None:
    """Which way features can move the answers now, and what is no longer promised."""
    was, now = (promised_shapes(one.personal.knowledge) for one in (old, new))
    if now:
        screen.say(f"the answers keep: {', '.join(now)}")
    lost = [words for words in was if words not in now]
    if lost:
        screen.say(f"no longer kept: {', '.join(lost)}")


def _say_signed(old: Bundle, new: Bundle, screen: Screen) -> None:
    """Whose word the rules are now; rules that nobody signed are a draft."""
    signed = read_signature(new.members)
    if signed is not None:
        screen.say(f"rules signed by {signer_words(signed)}")
    elif new.policies.signed or read_signature(old.members) is not None:
        screen.say("the new rules are a draft: nobody has signed them")


def _audit(knowledge: Path, data: Path | None, screen: Screen, *, accept: bool) -> None:
    """The lint of the new knowledge; with errors it is not used, unless they are accepted."""
    found, _ = check_with_rows(knowledge, data)
    for finding in found.findings:
        screen.say(str(finding))
    if found.audit is not None:
        screen.say(f"audit: {found.audit}")
    refuse_errors(found.findings, knowledge.name, screen, accept=accept)


def _compare(before: dict[str, float], after: dict[str, float], screen: Screen) -> None:
    was, now = show_scores(before), show_scores(after)
    rows = [(name, was.get(name, ""), now.get(name, "")) for name in dict.fromkeys((*was, *now))]
    screen.show(TextTable.of("Scores on the data", ("score", "before", "after"), rows))
