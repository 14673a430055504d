"""What a site's watch over its own model lets out: stakes that are summed with other sites'."""

from ...bundle.watch.record import read_record
from ...bundle.watch.together import share_evidence, shared_questions
from ...core.tree import Params
from ...core.wire import Task
from ...kernel.schema import Schema
from ..remote import Refusal
from .folder import Kit


def answer_evidence(kit: Kit, schema: Schema, task: Task) -> Params:
    """The stakes of this site's record; those of a site that watches nothing are 1."""
    names = [feature.name for feature in schema.features]
    asked = task.sent.get("evidence", {}).get("asked")
    if asked is None or asked.shape != (len(shared_questions(names)),):
        raise Refusal("evidence was asked for about other questions than the schema has")
    path = None if kit.file.watch is None else kit.path(kit.file.watch)
    record = None if path is None or not path.exists() else read_record(path)
    return share_evidence(record, names)
