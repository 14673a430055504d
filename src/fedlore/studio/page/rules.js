// The tables: one at a time in a grid, the linter's findings beside it.

import { decimalPoint } from "./clipboard.js";
import { desk } from "./desk.js";
import { listFindings, marksOf } from "./findings.js";
import "./grid.js";
import { insertRules, moveRules, removeRules } from "./gridkeys.js";
import { choose, make } from "./make.js";
import { Sheet } from "./sheet.js";
import { askTable } from "./tables.js";
import { EXTRAS, columnsOf, featureOf, nameOf, titleOf } from "./columns.js";
import { say } from "./words.js";

let chosen = 0;                   // the table that was looked at last

export class RulesView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => this.build(), this);
    desk.hear("findings", () => this.judge(), this);
  }

  build() {
    const old = this.grid, inside = this.contains(document.activeElement);
    const grids = desk.now.grids.filter((grid) => grid.side !== "examples");
    chosen = Math.min(chosen, Math.max(0, grids.length - 1));
    const tabs = make("div", { class: "tabs", role: "group", "aria-label": say("tables") }, grids.map((grid, i) => make("button", {
      "aria-pressed": String(i === chosen), onclick: () => { chosen = i; this.build(); this.grid?.sides.focus(); },
    }, `${say(grid.side)} · ${grid.file}${grid.sheet ? " · " + grid.sheet : ""}`)),
    make("button", { onclick: askTable }, say("tables.new")));
    this.side = make("aside", { "aria-label": say("findings") });
    const main = make("section", { "aria-label": say("view.rules") }, tabs, ...this.table(grids[chosen]));
    this.replaceChildren(make("div", { class: "split" }, main, this.side));
    this.judge();
    if (old && this.grid?.getAttribute("name") === old.getAttribute("name")) this.grid.go(old.row, old.column);
    if (inside) this.grid?.sides.focus({ preventScroll: true });
  }

  table(grid) {
    if (!grid) { this.grid = null; return [make("p", {}, say("tables.none"))]; }
    if (grid.fault) { this.grid = null; return [make("p", { class: "warn" }, grid.fault)]; }
    if (!desk.now.schema) { this.grid = null; return [make("p", { class: "warn" }, say("schema.first"))]; }
    const sheet = new Sheet(grid.header, grid.rows);
    this.grid = make("rule-grid", { name: `${grid.file}|${grid.sheet}` });
    this.note = make("p", { class: "note", id: "cell-note", "aria-live": "polite" });
    const columns = columnsOf(sheet, grid, desk.now.schema);
    this.grid.open({
      sheet, columns, first: grid.first, label: `${say(grid.side)} ${grid.file}`,
      adapt: (text, column) => (columns[column].number ? decimalPoint(text) : text),
      onchange: (header, rows) => desk.type(chosen, header, rows),
      onmove: (row, column) => this.tell(row, column),
    });
    return [this.tools(grid, sheet), this.grid, this.note];
  }

  tools(grid, sheet) {
    const button = (word, work) => make("button", { onclick: () => { work(this.grid); this.grid.sides.focus(); } }, say(word));
    const policies = desk.now.policies[grid.side];
    const hit = choose([["", say("hit.usual")], ...policies.map((p) => [p, `${p}: ${say("hit." + p)}`])], grid.hit,
      (value) => desk.edit([{ path: [grid.side, "sources", grid.source, "hit"], value: value || null }].filter((e) => e.value !== null || grid.hit), say("hit")),
      { "aria-label": say("hit") });
    const free = this.free(sheet);
    const add = choose([["", say("columns.add")], ...free], "", (value) => value && this.column(sheet, value), { "aria-label": say("columns.add") });
    return make("div", { class: "tools" },
      button("rows.insert", insertRules), button("rows.remove", removeRules),
      button("rows.up", (g) => moveRules(g, -1)), button("rows.down", (g) => moveRules(g, 1)),
      button("rows.fill", (g) => g.did(sheet.fillDown(g.area))),
      add, button("columns.remove", (g) => this.drop(sheet, g.column)),
      make("button", { id: "remove-table", onclick: () => desk.edit([{ path: [grid.side, "sources", grid.source], value: null }], grid.file) }, say("tables.remove")), make("span", { class: "gap" }), hit);
  }

  free(sheet) {
    const used = new Set(sheet.header.map((title) => (featureOf(title, desk.now.schema)?.name ?? nameOf(title)).toLowerCase()));
    const features = desk.now.schema.features.filter((f) => !used.has(f.name.toLowerCase())).map((f) => [titleOf(f), titleOf(f)]);
    return [...features, ...EXTRAS.filter((word) => !used.has(word)).map((word) => [word, say("columns." + word)])];
  }

  column(sheet, title) {
    const word = EXTRAS.includes(title);
    const then = this.grid.columns.findIndex((column) => column.role === "then");
    if (sheet.addColumn(title, word || then < 0 ? sheet.width : then)) this.changed(sheet);
  }

  drop(sheet, place) {
    const filled = sheet.rows.some((row) => row[place]);
    if (filled && !confirm(say("columns.sure", { name: sheet.header[place] }))) return;
    if (sheet.width > 1 && sheet.removeColumn(place)) this.changed(sheet);
  }

  changed(sheet) {
    desk.type(chosen, sheet.header, sheet.rows);
    this.build();
    this.grid.sides.focus();
  }

  // what is wrong with the active cell, in words below the grid
  tell(row, column) {
    const mark = this.grid.marks.get(`${row}:${column}`) || this.grid.marks.get(`${row}:`);
    const said = this.grid.columns[column];
    this.note.className = `note${mark?.severity === "error" ? " bad" : ""}`;
    this.note.textContent = mark ? mark.text : said?.hint || "";
  }

  judge() {
    const { findings } = desk.now;
    if (this.grid) this.grid.mark(marksOf(findings, chosen));
    const own = findings.filter((f) => f.kind !== "example" && (f.cell === null || f.cell.grid === chosen));
    const others = findings.length - own.length;
    this.side.replaceChildren(make("h2", {}, say("findings")),
      listFindings(own, (finding) => this.lead(finding)),
      others ? make("p", { class: "soft" }, say("findings.others", { count: others })) : "");
  }

  lead({ cell }) {
    if (cell.grid !== chosen) { chosen = cell.grid; this.build(); }
    this.grid.go(Math.max(0, cell.row ?? 0), cell.column ?? 0);
    this.grid.sides.focus();
  }
}

customElements.define("rules-view", RulesView);
