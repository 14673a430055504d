// The expert's examples: rows with the answer he expects; run whenever anything is typed.

import { ask } from "./ask.js";
import { decimalPoint } from "./clipboard.js";
import { exampleColumns, featureOf, nameOf } from "./columns.js";
import { desk } from "./desk.js";
import { listFindings, marksOf, tryRow } from "./findings.js";
import "./grid.js";
import { removeRules } from "./gridkeys.js";
import { make } from "./make.js";
import { Sheet } from "./sheet.js";
import { say } from "./words.js";

export class ExamplesView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => this.build(), this);
    desk.hear("findings", () => this.judge(), this);
  }

  get place() { return desk.now.grids.findIndex((grid) => grid.side === "examples"); }

  build() {
    const grid = desk.now.grids[this.place];
    const head = [make("h2", {}, say("view.examples")), make("p", { class: "soft" }, say("examples.help"))];
    this.grid = null;
    if (!desk.now.schema) { this.replaceChildren(...head, make("p", { class: "warn" }, say("schema.first"))); return; }
    if (!grid) {
      this.replaceChildren(...head, make("p", {}, make("button", { class: "main", onclick: () => desk.change("/api/examples", {}) }, say("examples.start"))));
      return;
    }
    if (grid.fault) { this.replaceChildren(...head, make("p", { class: "warn" }, grid.fault)); return; }
    this.sheet = new Sheet(grid.header, grid.rows);
    this.grid = make("rule-grid");
    const columns = exampleColumns(this.sheet, desk.now.schema);
    this.grid.open({
      sheet: this.sheet, columns, first: grid.first, label: say("view.examples"),
      adapt: (text, column) => (columns[column].number ? decimalPoint(text) : text),
      onchange: (header, rows) => desk.type(this.place, header, rows),
    });
    const tool = (word, work) => make("button", { onclick: () => { work(); this.grid.sides.focus(); } }, say(word));
    this.side = make("aside", { "aria-label": say("examples.result") });
    this.note = make("p", { class: "note", "aria-live": "polite" });
    this.replaceChildren(make("div", { class: "split" }, make("section", { "aria-label": say("view.examples") }, ...head,
      make("div", { class: "tools" }, tool("rows.remove", () => removeRules(this.grid)),
        tool("examples.tried", () => this.add([desk.tried])), tool("examples.propose", () => this.propose()),
        tool("examples.open", () => this.lead())), this.grid, this.note), this.side));
    this.judge();
  }

  // rows by names, or the proposed rows of cells, behind the last one
  async add(rows) {
    const known = rows.filter(Boolean);
    if (!known.length) { this.note.textContent = say("examples.none"); return; }
    const said = await ask("/api/examples/rows", { rows: known }).catch((error) => ({ fault: error.message }));
    if (said.fault) this.note.textContent = said.fault; else this.append_(said.rows);
  }

  async propose() {
    const said = await ask("/api/examples/propose", {}).catch((error) => ({ fault: error.message }));
    if (said.fault) { this.note.textContent = said.fault; return; }
    this.append_(said.rows);
    this.note.textContent = say("examples.proposed", { count: said.rows.length });
  }

  append_(rows) {
    const have = new Set(this.sheet.rows.map((row) => row.join("\t")));
    const fresh = rows.map((row) => this.fit(row)).filter((row) => !have.has(row.join("\t")));
    if (!fresh.length) return;
    const filled = this.sheet.rows.filter((row) => row.some(Boolean)).length;
    this.grid.did(this.sheet.change(() => { this.sheet.rows.splice(filled, this.sheet.rows.length - filled, ...fresh); }));
    this.grid.go(filled, 0);
  }

  // cells in the order of this file's own columns
  fit(row) {
    const names = [...desk.now.schema.features.map((f) => f.name), "expect", "allowed", "note"];
    return this.sheet.header.map((title) => row[names.indexOf(featureOf(title, desk.now.schema)?.name ?? nameOf(title))] ?? "");
  }

  lead() {
    const titles = this.sheet.header.map((title) => featureOf(title, desk.now.schema)?.name ?? nameOf(title));
    const names = new Set(desk.now.schema.features.map((f) => f.name));
    const row = this.sheet.rows[this.grid.row];
    if (row) tryRow(Object.fromEntries(titles.map((title, i) => [title, row[i]]).filter(([title, cell]) => names.has(title) && cell !== "")));
  }

  judge() {
    if (!this.grid) return;
    const own = desk.now.findings.filter((f) => f.kind === "example"), rows = this.sheet.rows.filter((row) => row.some(Boolean)).length;
    this.grid.mark(marksOf(desk.now.findings, this.place));
    const wrong = new Set(own.map((f) => f.place.row)).size;
    const open = desk.now.findings.some((f) => f.severity === "error" && ["cell", "header", "size", "source", "file"].includes(f.kind));
    const said = open ? make("p", { class: "warn" }, say("examples.unchecked")) : make("p", { class: wrong ? "bad" : "" }, wrong ? say("examples.wrong", { wrong, rows }) : say("examples.right", { rows }));
    this.side.replaceChildren(make("h2", {}, say("examples.result")), said,
      own.length ? listFindings(own, ({ cell }) => { this.grid.go(cell.row ?? 0, cell.column ?? 0); this.grid.sides.focus(); }) : "");
  }
}

customElements.define("examples-view", ExamplesView);
