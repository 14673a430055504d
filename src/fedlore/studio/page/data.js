// The rules against the site's own rows: what each one hits, and where it is right.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { listFindings, tryRow } from "./findings.js";
import { make } from "./make.js";
import { drawTrust } from "./trust.js";
import { say, shown } from "./words.js";

const percent = (part, whole) => (whole ? `${shown(100 * part / whole, 3)} %` : "–");

export class SiteDataView extends HTMLElement {
  connectedCallback() {
    this.load();
    desk.hear("desk", () => this.load(), this);
  }

  async load() {
    this.replaceChildren(make("h2", {}, say("view.data")), make("p", { class: "soft" }, say("data.help", { file: desk.now.data || "" })));
    await desk.settle();
    const said = await ask("/api/data", {}).catch((error) => ({ fault: error.message || say("away") }));
    if (!this.isConnected) return;
    if (said.fault) { this.append(make("p", { class: "warn" }, said.fault)); return; }
    this.draft = make("div", { "aria-live": "polite" });
    this.trust = make("div", { "aria-live": "polite" });
    if (desk.now.bundle) this.trusted();
    if (said.findings.length) this.append(listFindings(said.findings, () => {}));
    this.append(this.facts(said), ...(said.number ? [] : [make("h3", {}, say("data.rules")), this.rules(said.rules)]),
      make("h3", {}, say("data.outside", { count: said.outside_count })), this.outside(said.outside), this.trust);
    if (!said.number) this.append(make("h3", {}, say("data.draft")), make("p", { class: "soft" }, say("data.draft.help", { count: said.silent })),
      make("button", { id: "suggest", onclick: () => this.suggest() }, say("data.suggest")), this.draft);
  }

  // how the site's model would do under each λ: it has seen these rows, which is said
  async trusted() {
    const said = await ask("/api/trust", {}).catch((error) => ({ fault: error.message || say("away") }));
    if (!this.isConnected) return;
    this.trust.replaceChildren(make("h3", {}, say("trust.title")), make("p", { class: "soft" }, say("trust.help", { count: said.rows ?? 0 })),
      said.fault ? make("p", { class: "warn" }, said.fault) : drawTrust(said));
  }

  facts(said) {
    const fact = (word, value) => make("div", { class: "card" }, make("p", { class: "big" }, value), make("p", { class: "soft" }, say(word)));
    if (said.number) {
      return make("div", { class: "fields" }, fact("data.rows", String(said.rows)), fact("data.rmse", said.rmse === null ? "–" : `${shown(said.rmse, 4)} ${said.unit}`),
        fact("data.silent", percent(said.silent, said.rows)), fact("data.width.number", `${shown(said.width, 4)} ${said.unit}`), fact("data.contradicted", String(said.contradicted)));
    }
    return make("div", { class: "fields" }, fact("data.rows", String(said.rows)), fact("data.right", percent(said.right, said.rows)),
      fact("data.silent", percent(said.silent, said.rows)), fact("data.width", `${shown(said.width, 3)} / ${said.classes}`), fact("data.contradicted", String(said.contradicted)));
  }

  rules(list) {
    const head = ["table", "rule", "then", "hits", "right.n", "wrong", "contra"].map((key, i) => make("th", { scope: "col", class: i > 2 ? "n" : "" }, say("data." + key)));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("data.rules") }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head)),
      make("tbody", {}, list.slice(0, 500).map((r) => make("tr", {}, make("td", {}, r.table), make("td", {}, r.rule), make("td", {}, r.outcome),
        make("td", { class: "n" }, String(r.rows)), make("td", { class: "n" }, String(r.correct ?? "")), make("td", { class: r.incorrect ? "n bad" : "n" }, String(r.incorrect ?? "")),
        make("td", { class: "n" }, shown(r.conflicts * 100, 3) + " %"))))));
  }

  outside(list) {
    if (!list.length) return make("p", { class: "soft" }, say("data.outside.none"));
    return make("ul", {}, list.map((one) => make("li", {}, say("data.line", { line: one.line, label: one.label }), " ",
      make("button", { class: "plain", onclick: () => tryRow(one.row) }, say("findings.try")))));
  }

  async suggest() {
    const { rule, fault } = await ask("/api/suggest", {}).catch((error) => ({ fault: error.message }));
    if (fault) { this.draft.replaceChildren(make("p", { class: "warn" }, fault)); return; }
    if (!rule) { this.draft.replaceChildren(make("p", { class: "soft" }, say("data.draft.none"))); return; }
    const text = Object.entries(rule.cells).map(([name, cell]) => `${name} ${cell}`).join(" · ");
    this.draft.replaceChildren(make("div", { class: "finding warning" }, make("div", { class: "where" }, say("data.draft.mark")),
      make("p", {}, `${text} → `, make("strong", {}, rule.then)), make("p", { class: "mend" }, say("data.draft.counts", rule)),
      make("p", { class: "line" }, make("button", { class: "main", id: "accept", onclick: () => this.accept(rule) }, say("data.accept")),
        make("button", { onclick: () => this.draft.replaceChildren() }, say("data.reject")))));
  }

  // into the first table of predictions, as the last rule: what is there goes before
  async accept(rule) {
    const place = desk.now.grids.findIndex((grid) => grid.side === "predict" && !grid.fault);
    if (place < 0) { this.draft.append(make("p", { class: "warn" }, say("tables.none"))); return; }
    const grid = desk.now.grids[place], header = [...grid.header], bare = header.map((title) => title.split("[")[0].trim());
    const then = bare.findIndex((title) => ["then", "outcome", "range"].includes(title.toLowerCase()) || title === grid.outcome);
    let rows = grid.rows.filter((row) => row.some(Boolean));
    for (const feature of desk.now.schema.features.filter((f) => f.name in rule.cells && !bare.includes(f.name))) {
      header.splice(then, 0, feature.unit ? `${feature.name} [${feature.unit}]` : feature.name);
      rows = rows.map((row) => [...row.slice(0, then), "", ...row.slice(then)]);
    }
    const names = header.map((title) => title.split("[")[0].trim()), last = names.findIndex((n) => ["then", "outcome", "range"].includes(n.toLowerCase()) || n === grid.outcome);
    const highest = Math.max(0, ...rows.map((row) => Number(row[names.indexOf("priority")]) || 0));
    rows.push(names.map((name, i) => (i === last ? rule.then : rule.cells[name] ?? (name === "priority" ? String(highest + 1) : name === "note" ? say("data.draft.counts", rule) : ""))));
    desk.type(place, header, rows);
    await desk.settle();
    await desk.load();
    location.hash = "#rules";
  }
}

customElements.define("data-view", SiteDataView);
