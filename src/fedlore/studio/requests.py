"""What the page may ask, as it must be shaped."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..kernel.document import Effect


class StudioRequest(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class Change(StudioRequest):
    """A change to the draft."""

    token: str = Field(description="the state that the change was made on")
    who: str = Field("", max_length=100)


class TableChange(Change):
    """The cells of one table."""

    grid: int = Field(ge=0)
    header: list[str]
    rows: list[list[str]]


class Edit(StudioRequest):
    """Another value at a key of knowledge.toml; null takes it away."""

    path: list[str | int]
    value: Any = None


class DocumentChange(Change):
    """Some edits, one after the other."""

    edits: list[Edit] = Field(min_length=1, max_length=1_000)
    what: str = Field("the settings", max_length=100)


class NewTable(Change):
    """A table that is not there yet."""

    side: str = Field(pattern="^(predict|range)$")
    file: str = Field(max_length=100)
    columns: list[str] = Field(max_length=200)


class CalibrationRequest(Change):
    """A range calibrated on the site's rows."""

    alpha: float = Field(gt=0, lt=1)  # the share of labels that it may miss
    per_class: bool = False


class FormulaText(StudioRequest):
    """A formula to be looked at, or a comparison that says in which rows something holds."""

    text: str
    region: bool = False


class ShapeAsked(StudioRequest):
    """A feature, and the rows in which its effect is wanted."""

    feature: str
    where: str = ""
    effect: Effect = "raises"
    turns_at: float | tuple[float, ...] | None = None


class OneRule(StudioRequest):
    """A rule by its place among those of all tables, as Data lists them."""

    rule: int = Field(ge=0)


class RuleAccepted(Change):
    """A suggested rule that is to be the last one of the first table of predictions."""

    cells: dict[str, str]
    then: str
    note: str = Field("", max_length=1_000)


class LabelChoice(Change):
    """Which column of the site's rows is to be predicted."""

    label: str


class TriedRow(StudioRequest):
    """One row by the names of its features; texts and numbers are read alike."""

    row: dict[str, str | float | None]


class LookAlong(TriedRow):
    """A row, and the features along which the answer is wanted."""

    features: list[str] = Field(min_length=1, max_length=2)


class WantedClass(TriedRow):
    """A row, and the class that it should get."""

    wanted: str


class SaveRequest(Change):
    """The draft is to become the site's files."""

    why: str = Field("", max_length=1_000)
    anyway: bool = False  # although examples come out otherwise


class SomeRows(StudioRequest):
    """Rows by the names of their features."""

    rows: list[dict[str, str | float | None]] = Field(max_length=1_000)


class TwoVersions(StudioRequest):
    """Two states by number, or `draft` and `saved`."""

    before: str = Field(max_length=12)
    after: str = Field(max_length=12)


class OneVersion(Change):
    """A version that is to be written on again."""

    number: int = Field(ge=1)


class SignatureAsked(StudioRequest):
    """Who signs what is saved."""

    signer: str = Field(max_length=100)
    passphrase: str = Field(max_length=1_000)
