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
    this.rows = make("div");
    if (desk.now.bundle) this.trusted();
    if (said.findings.length) this.append(listFindings(said.findings, () => {}));
    this.append(this.facts(said), ...(said.number ? [] : [make("h3", {}, say("data.rules")), this.rules(said.rules), this.rows]),
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
    const said = list.some((r) => "confidence" in r) ? ["confidence"] : [], head = ["table", "rule", "then", "hits", "right.n", "wrong", "contra", ...said].map((key, i) => make("th", { scope: "col", class: i > 2 ? "n" : "" }, say("data." + key)));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("data.rules") }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head)),
      make("tbody", {}, list.slice(0, 500).map((r, place) => make("tr", {}, make("td", {}, r.table), make("td", {}, r.rule), make("td", {}, r.outcome),
        make("td", { class: "n" }, String(r.rows)), make("td", { class: "n" }, String(r.correct ?? "")), make("td", { class: r.incorrect ? "n bad" : "n" },
          r.incorrect ? make("button", { class: "plain bad", "aria-label": say("data.wrong.show", { count: r.incorrect, rule: r.rule }), onclick: () => this.wrong(place, r) }, String(r.incorrect)) : String(r.incorrect ?? "")),
        make("td", { class: "n" }, shown(r.conflicts * 100, 3) + " %"), said.length ? make("td", { class: "n" }, (r.confidence ?? 1) < 1 ? `${shown(100 * r.confidence, 3)} %` : "") : null)))));
  }

  // the rows on which a rule is wrong, below the table
  async wrong(rule, { table, rule: name }) {
    const said = await ask("/api/data/wrong", { rule }).catch((error) => ({ fault: error.message }));
    this.rows.replaceChildren(...(said.fault ? [make("p", { class: "warn" }, said.fault)] : [make("h3", { tabindex: -1 }, say("data.wrong.title", { table, rule: name, count: said.count })), this.outside(said.rows)]));
    this.rows.firstChild.focus();
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
      rule.breaks ? make("p", { class: "bad" }, say("data.draft.breaks"), " ", rule.breaks) : "",
      make("p", { class: "line" }, rule.breaks ? "" : make("button", { class: "main", id: "accept", onclick: () => this.accept(rule) }, say("data.accept")),
        make("button", { onclick: () => this.draft.replaceChildren() }, say("data.reject")))));
  }

  // behind the rules of the first table of predictions
  async accept({ cells, then, ...counts }) {
    if (await desk.change("/api/accept", { cells, then, note: say("data.draft.counts", counts) })) location.hash = "#rules";
  }
}

customElements.define("data-view", SiteDataView);
