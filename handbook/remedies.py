"""What to do about an error, by the part of the source that says it."""

#: Room -> its letter in the codes, and what its errors are about.
LETTERS: dict[str, tuple[str, str]] = {
    "algorithms": ("A", "Settings of an algorithm"),
    "bundle": ("B", "Bundles: files of a model with its knowledge"),
    "core": ("C", "Files, tensors and models"),
    "data": ("D", "Rows and where they are read from"),
    "engine": ("E", "Training in one process"),
    "federation": ("F", "A federation over machines"),
    "coke": ("G", "Coals, cokes and blends"),
    "knowledge": ("K", "Knowledge: tables, formulas, ranges, schemas"),
    "look": ("L", "Pictures and pages"),
    "personal": ("M", "A site's own model"),
    "config": ("N", "Settings in files"),
    "privacy": ("P", "Noise, secure sums and attacks"),
    "report": ("R", "Reports"),
    "studio": ("S", "The studio"),
    "testing": ("T", "Laws for plug-ins"),
    "workbench": ("W", "Runs and comparisons"),
    "cli": ("X", "The command line"),
    "sklearn": ("Y", "scikit-learn estimators"),
}

#: Path below src/fedlore -> what helps; the longest that fits is taken.
REMEDIES: dict[str, str] = {
    "algorithms": "Correct the setting in `[algorithm.settings]` or in the call; `fedlore "
    "algorithms` lists every algorithm with its settings, and the page of federation.toml their "
    "defaults.",
    "bundle": "Open the file with the version of fedlore that the message names, or export it "
    "again with `fedlore export`: a bundle is written whole and never mended.",
    "bundle/archive.py": "The file is damaged, cut off or not a bundle: copy it again, compare its "
    "checksum, or export it again with `fedlore export`.",
    "bundle/answer": "Correct the rows that the message names: columns, units and levels must be "
    "those of the schema in the bundle.",
    "bundle/certificate": "A certificate speaks of tables and formulas that are read exactly: "
    "leave out what the message names, or do without a certificate.",
    "bundle/onnx": "A graph holds only what ONNX can say: leave out the source or layer that the "
    "message names, or predict from the bundle itself.",
    "bundle/serve": "Correct the request, or how `fedlore serve` was started: its page and "
    "`/docs` say what a request holds.",
    "bundle/watch": "Give measured rows with labels and dates as the page on watching shows.",
    "cli": "Give the command what the message asks for; `fedlore COMMAND --help` has an example.",
    "coke": "Correct the file of coals or cokes: the page on blends says which columns it has.",
    "coke/blend": "Correct the recipe, the limits or mixing.toml; `fedlore blend --help` has an "
    "example, and the page of mixing.toml its keys.",
    "config": "Correct the key in the file that the message names; the reference lists every key "
    "with its default.",
    "core": "Correct the value in the call that the message names.",
    "core/files": "Save the file anew as CSV (UTF-8), XLSX or Parquet; the message says which "
    "line or sheet cannot be read.",
    "core/plugins.py": "Install the package that offers the name, or correct its entry point; "
    "`fedlore --version --json` lists what is installed.",
    "core/store.py": "The file is damaged, missing or cannot be written: look at the disk and the "
    "rights of its folder, and make it again with the command that wrote it.",
    "data": "Give the data that the message names: rows of your own, or a public set in the "
    "folder of FEDLORE_DATA.",
    "data/rows": "Correct the rows, columns or units that the message names; `fedlore draft` "
    'writes a schema that fits a file, and `missing = "mean"` of a feature allows gaps.',
    "engine": "Correct the call: clients with rows, one schema for all, and a plan that fits them.",
    "engine/lore": "Correct the menu or the recipe; the page on lore says what each part needs.",
    "engine/stacked": "Train with the plain engine, which takes every model, or with one of the "
    "models that a stack holds.",
    "engine/tuning": "Give tuning enough held-out rows and a menu whose names exist; the page on "
    "tuning has an example.",
    "federation": "Look at the coordinator with `fedlore status`, at a site with `fedlore "
    "doctor`; what was finished is kept, and the same command goes on from there.",
    "federation/coordinator": "Look with `fedlore status` which site or round it is about; a round "
    "goes on when enough sites are back.",
    "federation/flower": "Look whether server and sites reach each other, run one version of "
    "fedlore, and use the certificates of this federation's kits.",
    "federation/kits": "Make the kit again with `fedlore federation add-site`; a kit belongs to "
    "one federation and one site.",
    "federation/settings.py": "Correct federation.toml; the reference lists every key.",
    "federation/site": "The site protects itself: correct site.toml or its policy if what is asked "
    "for is wanted, otherwise leave it. `fedlore doctor` shows all of it.",
    "federation/watching": "Correct the address, the token or the certificate of the page to "
    "watch by.",
    "knowledge": "Correct the knowledge that the message names; `fedlore lint` shows everything "
    "at once, with the row of each fault.",
    "knowledge/content.py": "Correct knowledge.toml, or put the file that it names beside it.",
    "knowledge/files.py": "Correct knowledge.toml; the reference lists every key.",
    "knowledge/formulas": "Correct the formula at the marked place: numbers, features, + - * / **, "
    "exp, log, log10, sqrt, abs, min, max, where and comparisons.",
    "knowledge/learned.py": "Give a trained model whose outputs are the classes of the schema.",
    "knowledge/lint": "Correct the examples or tables that the message names; `fedlore lint` "
    "shows them with their rows.",
    "knowledge/numbers": "Correct the bins, the sets or the [target] of the knowledge about a "
    "number; the page on numbers has an example.",
    "kernel/schema.py": "Correct the features, levels or classes of the schema, or give rows "
    "that have its columns.",
    "knowledge/signing.py": "Ask the owner to look at the knowledge and sign it in the studio; a "
    "signature holds for what was signed and nothing else.",
    "knowledge/sources": "Correct the source in knowledge.toml: one kind each, with the keys that "
    "the reference lists.",
    "knowledge/tables": "Correct the cell that the message names; the page on knowledge says what "
    "a cell may hold, and `fedlore lint` shows all faults of a table.",
    "look": "Correct the call that draws it.",
    "personal": "Correct the call: knowledge, model and rows must have one schema.",
    "personal/own": "Give the site's own model enough rows of each class, or leave it out.",
    "personal/tasks": "Say which task it is: classes have a schema, a number has bins.",
    "privacy": "Correct [privacy] in federation.toml; the page on hiding says what goes together.",
    "privacy/ckks": "Make the keys again with the federation's kits; keys and settings of all "
    "sites must be those of one federation.",
    "privacy/dp": "Correct noise, clipping or budget; a spent budget or a damaged ledger stops a "
    "site for good reason, and is not to be deleted.",
    "privacy/leak": "Correct the case or the setting; `fedlore leak --help` lists them.",
    "privacy/secagg": "Wait until enough sites are there: a sum of too few would show what one of "
    "them sent. A site that broke the protocol is left out of the round.",
    "report": "Give the folder of a finished `fedlore run`, with its results.jsonl.",
    "sklearn": "Correct the arguments of the estimator, or give rows that fit its schema.",
    "studio": "Look at the page again: someone else may have saved, or the site's folder has "
    "changed. Drafts are kept on disk.",
    "testing": "Correct the plug-in: the law that it breaks is named.",
    "workbench": "Correct federation.toml or the sites' folders; `fedlore new` writes an example, "
    "and finished approaches are not run again.",
    "workbench/leak": "Correct the case or the setting; `fedlore leak --help` lists them.",
    "workbench/paper": "Put the data where FEDLORE_DATA points, or run the part that needs none.",
}


def remedy(path: str) -> str:
    """What helps against an error of a file, such as knowledge/tables/cells.py."""
    fits = [part for part in REMEDIES if path == part or path.startswith((f"{part}/", f"{part}."))]
    return REMEDIES[max(fits, key=len)]
