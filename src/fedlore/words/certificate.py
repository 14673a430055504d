"""The sentences of a range certificate: how each claim is known, and what none of them says."""

LIMITS = (
    "It speaks of rows inside the scope, in single precision. A value that may be missing only "
    "widens the range where it is, so that what holds for every value holds without it.",
    "That the range is right is the expert's word, not a result of this certificate.",
    "Formulas are bounded as they are computed, rounding included, by runtimes that round + - * / "
    "to the nearest and miss roots, exp, log and powers by at most 8 units in the last place.",
    "The structure argument is about fedlore's own Personal, or the graph that was checked.",
    "The hash shows that nothing was changed since; it does not show who issued it.",
)
SOFT = (
    "Some rules here hold in most cases only. They weigh in the prediction; they exclude no class, "
    "and nothing is claimed of them."
)
SIGNED = (
    "The signature shows that the holder of its key stands behind the rules and examples; λ, "
    "weights of an average and calibrated ranges that only narrow are not signed. Whose key it is "
    "must be known from elsewhere."
)
_STRUCTURE = {
    "classes": "structure: the scores of network and members are made finite, those outside the "
    "range become -inf before the softmax, which makes their probabilities exactly 0; weights are "
    "not negative and sum to 1, and the prediction's weight outside is removed",
    "number": "structure: every number that is given out is made finite and moved to the nearest "
    "one of S(x), the last step before it leaves",
}
#: What is said where a claim was tested on rows in place of a proof.
TESTED = {
    "inside-range": "the definition of the model, whose code is not read here; a graph is proved",
    "monotone": "the knowledge's part is proved, the network's is not decided for all rows",
}
_DECIDED = {"proved": "in every row", "refuted": "not in this row", "unknown": "undecided"}
_MONOTONE = {
    "proved": "structure: a slope above 0 in the place for any weights, a bell of one width, a "
    "range and prediction that move the same way, and members whose weights and trees do",
    "refuted": "the range or the prediction moves the other way from a row on; of rows with the "
    "same range it is so by structure",
    "unknown": "whether range, prediction and members all move the same way is undecided here; the "
    "network does by structure, of rows with the same range",
}


def explain_claim(
    claim: str,
    status: str,
    boxes: int,
    *,
    needed: bool,
    kind: str = "",
    weights: int = 0,
    soft: bool = False,
    trust: tuple[float, float] = (0.0, 0.0),
) -> str:
    """How a claim is known."""
    if claim == "inside-range":
        return _STRUCTURE[kind]
    if claim == "finite-weights":
        return f"each of {weights} numbers was looked at"
    if claim == "trust-kept":
        own, said = trust
        return (
            f"the expert weighs {own:g} in the answer, learned at the site; the file says {said:g}"
        )
    if claim == "monotone":
        return _MONOTONE[status]
    how = f"{_DECIDED[status]}, all sources together, over {boxes} boxes, rounding included"
    if soft:
        how = "what holds in most cases only is not counted"
    if not needed and status != "proved":
        how += "; not needed, the policy takes care of what is outside"
    return how
