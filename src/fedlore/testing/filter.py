"""What every filter must do for every algorithm: without noise, the server gets the plain mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..algorithms import Algorithm, FedAvg, check_fit
from ..core import tree
from ..core.aggregate import Mean
from ..core.tree import Payload
from ..core.wire import Reply, Task
from ..engine import Local, federate
from ..engine.loop import Recipe, Weights
from ..errors import ConfigError
from ..privacy.dp.filter import Noise
from ..privacy.filters import (
    Defence,
    Filter,
    NeedsQuorum,
    Placement,
    SiteFilters,
    filter_context,
    guard_transport,
)
from .algorithm import ENGINES
from .clients import (
    EXAMPLES,
    MakeEngine,
    Postbox,
    check_laws,
    expect,
    small_federation,
    small_recipe,
    start_of,
)

WEIGHTS: tuple[Weights, ...] = ("equal", "size")


def check_filter(
    defence: Defence, *, error: float = 1e-6, algorithms: Sequence[Algorithm] = EXAMPLES
) -> None:
    """Every law for a filter of one's own, in settings without noise.

    `error` is the relative error that a mean may have. Where making the filter refuses an
    algorithm or weights with a ConfigError, that pair is passed over; FedAvg must be borne.
    """
    check_laws(PASSAGE_LAWS, (defence, error))
    check_laws(FILTER_LAWS, *((defence, algorithm, error) for algorithm in algorithms))


def the_mean_is_the_plain_one(defence: Defence, algorithm: Algorithm, error: float) -> None:
    """With equal weights and with those of rows, in single and in double precision."""
    for weights in WEIGHTS:
        for double in (True, False):
            if why_not(defence, algorithm, weights=weights, sites=3) is None:
                found = mean_members(defence, algorithm, error, weights, sites=3, double=double)
                expect(len(found) == 3, f"3 sites answered, {len(found)} are in the mean")


def the_mean_is_that_of_the_survivors(defence: Defence, algorithm: Algorithm, error: float) -> None:
    """Two sites of seven get lost, in training or in a task of the filter's own."""
    if why_not(defence, algorithm, sites=7) is not None:
        return
    lost = ("site-1", "site-3")
    enough = not isinstance(defence, NeedsQuorum) or defence.least(7) <= 5
    for stage in ("train", *defence.kinds):
        found = mean_members(defence, algorithm, error, sites=7, lose={stage: lost})
        expect(found or not enough, f"two of seven got lost in '{stage}', and there is no mean")
        if stage == "train":
            expect(not set(found) & set(lost), "a site is in the mean whose upload got lost")


def a_training_ends_where_the_plain_one_does(
    defence: Defence,
    algorithm: Algorithm,
    error: float,
    engines: Sequence[MakeEngine] = ENGINES,
) -> None:
    """Three rounds with the filter and without, in every engine."""
    if why_not(defence, algorithm, sites=3) is not None:
        return
    recipe = small_recipe(algorithm)
    for engine in engines:
        plain = federate(engine(small_federation(), recipe), recipe, 3)
        one = make_filter(defence, algorithm, sites=3, rounds=3)
        hidden = federate(guard_transport(engine(small_federation(), recipe), [one]), recipe, 3)
        expect(hidden.accepted == plain.accepted, f"merged were {hidden.accepted}")
        expect(hidden.rows == plain.rows, f"the rounds were {hidden.rows}")
        _near(hidden.state, plain.state, error)


def a_client_that_is_not_asked_is_not_needed(defence: Defence, error: float) -> None:
    """Half of six clients in each round."""
    algorithm = FedAvg()
    recipe = small_recipe(algorithm)
    clients = small_federation([9, 12, 15, 18, 21, 24])
    plain = federate(Local(clients, recipe), recipe, 3, sample=0.5)
    one = make_filter(defence, algorithm, sites=6, rounds=3, sample=0.5)
    hidden = federate(guard_transport(Local(clients, recipe), [one]), recipe, 3, sample=0.5)
    expect(hidden.accepted == plain.accepted, f"merged were {hidden.accepted}")
    _near(hidden.state, plain.state, error)


def single_row_counts_do_not_reach_the_loop(defence: Defence, error: float) -> None:
    """How many rows a site has is about its rows; a reply may count sites."""
    algorithm = FedAvg()
    recipe = small_recipe(algorithm)
    one = make_filter(defence, algorithm, sites=3, rounds=2)
    post = Postbox(guard_transport(Local(small_federation(), recipe), [one]))
    federate(post, replace(recipe, plan=replace(recipe.plan, finish=1)), 2, evaluate=1)
    for reply in (*post.replies, *post.kept.values()):  # of the training, and of the scores
        seen = reply.rows <= len(reply.names)
        expect(seen, f"the loop sees {reply.rows} rows of '{reply.client}'")


def a_filter_finds_no_flaw_in_what_its_own_half_sends(defence: Defence, error: float) -> None:
    """And what hides finds one in an upload that does not, in rows, and in an empty upload."""
    for weights in WEIGHTS:
        for kind in ("train", "moments"):
            if kind == "moments" and isinstance(defence, Noise):
                continue  # no budget covers sums of features
            if why_not(defence, FedAvg(), weights=weights, sites=3) is None:
                _judge(make_filter(defence, FedAvg(), weights=weights, sites=3), kind)


FILTER_LAWS = (
    the_mean_is_the_plain_one,
    the_mean_is_that_of_the_survivors,
    a_training_ends_where_the_plain_one_does,
)
#: What does not depend on the algorithm.
PASSAGE_LAWS = (
    a_client_that_is_not_asked_is_not_needed,
    single_row_counts_do_not_reach_the_loop,
    a_filter_finds_no_flaw_in_what_its_own_half_sends,
)


def make_filter(
    defence: Defence,
    algorithm: Algorithm,
    *,
    sites: int,
    weights: Weights = "equal",
    rounds: int = 1,
    sample: float = 1.0,
) -> Filter:
    """The filter for a small federation in this process, any part of whose cohort may be used."""
    around = filter_context(
        algorithm,
        sites=sites,
        rounds=rounds,
        weights=weights,
        aggregate=Mean(),
        sample=sample,
        least=1,
    )
    return defence.make(around, Placement())


def why_not(
    defence: Defence, algorithm: Algorithm, *, sites: int, weights: Weights = "equal"
) -> str | None:
    """Why this federation is refused, None if it is not."""
    try:
        check_fit(algorithm, small_recipe(algorithm).plan, weights=weights)
        make_filter(defence, algorithm, sites=sites, weights=weights)
    except ConfigError as error:
        return str(error)
    return None


def mean_members(
    defence: Defence,
    algorithm: Algorithm,
    error: float,
    weights: Weights = "equal",
    *,
    sites: int,
    lose: Mapping[str, Sequence[str]] | None = None,
    double: bool = True,
) -> list[str]:
    """Who is in the mean of one exchange, which is that of what these clients had answered."""
    lost = lose or {}
    recipe = replace(small_recipe(algorithm, double=double, epochs=1), weights=weights)
    clients = small_federation([8 + (7 * i) % 23 for i in range(sites)])
    inside = Postbox(Local(clients, recipe))
    one = make_filter(defence, algorithm, sites=sites, weights=weights)
    halves = {c.id: [one.site(c.id)] for c in clients}
    filtered = SiteFilters(inside, halves, hides=one.hides)
    wire = Postbox(filtered, lose=lambda task, name: name in lost.get(task.kind, ()))
    task = Task("train", 1, algorithm.send(algorithm.init(start_of(recipe))), recipe.seed)
    replies = list(one.over(wire).exchange(task, inside.clients()))
    members = [name for reply in replies for name in reply.names]
    if not members:
        return []
    by_size = weights == "size"
    weighed = {n: float(r.rows if by_size else 1) for n, r in inside.kept.items()}
    plain = tree.mean((inside.kept[n].upload, weighed[n]) for n in sorted(members))
    found = tree.mean((r.upload, float(r.rows if by_size else len(r.names))) for r in replies)
    _near(found, plain, error)
    return members


def _near(found: Payload, wanted: Payload, error: float) -> None:
    """Refuse bundles whose relative error is larger."""
    held, asked = ({k: set(b) for k, b in p.items()} for p in (found, wanted))
    expect(held == asked, f"the mean holds {held}, the plain one {asked}")
    for key, bundle in wanted.items():
        gap = tree.norm(tree.sub(found[key], bundle)) / (tree.norm(bundle) or 1.0)
        expect(gap < error, f"the mean of '{key}' is off by {gap:.2g}, allowed is {error:g}")


def _judge(one: Filter, kind: str) -> None:
    recipe: Recipe = small_recipe(FedAvg())
    inside = Postbox(Local(small_federation(), recipe))
    halves = {name: [one.site(name)] for name in inside.clients()}
    judged = _Judged(SiteFilters(inside, halves, hides=one.hides), inside, one, kind)
    task = Task(kind, 1, {"model": start_of(recipe)})
    expect(list(one.over(judged).exchange(task, inside.clients())), f"nothing came of '{kind}'")
    expect(kind in judged.asked, f"the server half never asked for '{kind}'")


class _Judged(Postbox):
    """A wire on which every reply is judged as the coordinator would."""

    def __init__(self, wire: SiteFilters, inside: Postbox, one: Filter, kind: str) -> None:
        super().__init__(wire)
        self._inside, self._one, self._kind = inside, one, kind
        self.asked: set[str] = set()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for reply in super().exchange(task, to):
            self.asked.add(task.kind)
            plain = self._inside.kept[reply.client] if task.kind == self._kind else reply
            self._look(task, reply, plain)
            yield reply

    def _look(self, task: Task, reply: Reply, plain: Reply) -> None:
        one, main = self._one, task.kind == self._kind
        like = plain.upload if main else {}
        wrong = one.flaw(task, reply, like)
        expect(wrong is None, f"its own answer to '{task.kind}' is called flawed: {wrong}")
        if not one.hides:
            return
        bad = {"with rows": replace(reply, rows=5)}
        if main:
            bad |= {"in the clear": plain, "that is empty": replace(reply, upload={})}
        for what, wicked in bad.items():
            found = one.flaw(task, wicked, like)
            expect(found is not None, f"no flaw is found in an answer to '{task.kind}' {what}")
