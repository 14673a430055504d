// What was saved when, by whom and why; and what two versions answer differently.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { tryRow } from "./findings.js";
import { choose, field, make } from "./make.js";
import { signPart } from "./signing.js";
import { say, shown, when } from "./words.js";

export class VersionsView extends HTMLElement {
  connectedCallback() {
    this.load();
    desk.hear("desk", () => this.load(), this);
  }

  async load() {
    const list = await ask("/api/versions").catch((error) => { desk.fail(error); return []; });
    const blamed = list.length ? await ask("/api/blame").catch(() => []) : [];
    const signing = await signPart();
    if (!this.isConnected) return;
    const names = [...list.map((v) => [String(v.number), `${v.number} · ${when(v.when)} · ${v.who || v.why}`]).reverse(),
      ["saved", say("versions.saved")], ...(desk.now.draft.length ? [["draft", say("versions.draft")]] : [])];
    const usual = desk.now.draft.length ? ["saved", "draft"] : [String(Math.max(1, list.length - 1)), String(list.length || "saved")];
    const before = choose(names, usual[0], () => this.compare(before.value, after.value));
    const after = choose(names, usual[1], () => this.compare(before.value, after.value));
    this.result = make("div", { "aria-live": "polite" });
    this.replaceChildren(make("div", { class: "halves" },
      make("section", { "aria-label": say("versions.list") }, make("h2", {}, say("versions.list")), list.length ? this.table(list) : make("p", { class: "soft" }, say("versions.none")), this.blame(blamed, list), signing,
        make("p", {}, make("button", { id: "book", onclick: () => this.book() }, say("book")), " ", make("span", { class: "soft" }, say("book.help")))),
      make("section", { "aria-label": say("versions.compare") }, make("h2", {}, say("versions.compare")),
        make("div", { class: "fields" }, field(say("versions.before"), before), field(say("versions.after"), after)), this.result)));
    if (names.length > 1 && desk.now.schema) this.compare(before.value, after.value);
  }

  table(list) {
    const head = ["number", "when", "who", "why"].map((key) => make("th", { scope: "col" }, say("versions." + key)));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("view.versions") }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head, make("td"))),
      make("tbody", {}, [...list].reverse().map((v) => make("tr", {}, make("th", { scope: "row" }, String(v.number)), make("td", {}, when(v.when)), make("td", {}, v.who), make("td", {}, v.why),
        make("td", {}, make("button", { class: "plain", onclick: () => confirm(say("versions.restored", { number: v.number })) && desk.change("/api/restore", { number: v.number }) }, say("versions.restore"))))))));
  }

  // each table of the last version, every cell with the version and the person that wrote it
  blame(tables, list) {
    const who = (number) => `${number} · ${list.find((v) => v.number === number)?.who || "–"}`;
    return tables.map((table) => make("details", {}, make("summary", {}, say("versions.blame", { file: table.file })),
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.file }, make("table", { class: "plain" },
        make("thead", {}, make("tr", {}, table.header.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, table.rows.map((row, i) => make("tr", {}, row.map((cell, j) => make("td", {}, cell, " ", make("small", { class: "soft" }, who(table.versions[i][j])))))))))));
  }

  // one page, put where the browser keeps what it downloads
  async book() {
    const { html } = await ask("/api/book").catch((error) => { desk.fail(error); return {}; });
    if (!html) return;
    const link = make("a", { href: URL.createObjectURL(new Blob([html], { type: "text/html" })), download: `${desk.now.name}-rule-book.html` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async compare(before, after) {
    if (before === after) { this.result.replaceChildren(make("p", { class: "soft" }, say("versions.same"))); return; }
    this.result.replaceChildren(make("p", { class: "soft" }, "…"));
    try {
      const said = await ask("/api/compare", { before, after });
      this.result.replaceChildren(...this.tell(said));
    } catch (error) { this.result.replaceChildren(make("p", { class: "warn" }, error.message || say("away"))); }
  }

  // how many rows change, and the first of them one by one
  moves(text, model) {
    if (model.fault) return make("p", { class: "soft" }, model.fault);
    if (!model.rows.length) return make("p", {}, text);
    const number = (v) => (typeof v === "number" ? shown(v, 5) : v);
    return make("details", {}, make("summary", {}, text),
      make("ul", {}, model.rows.map((one) => make("li", {}, say("versions.move", { line: one.line, before: number(one.before), after: number(one.after) })))));
  }

  tell(said) {
    const parts = [make("p", { class: "soft" }, say(said.exact ? "versions.exact" : "versions.sampled"))];
    if (said.rows) parts.push(this.moves(say("versions.rows", said.rows), said.rows));
    if (said.model) parts.push(this.moves(say("versions.moves", said.model), said.model));
    for (const { key, before, after } of said.settings) {
      parts.push(make("div", { class: "finding info" }, make("div", { class: "where" }, key), make("p", {}, before || "–", " → ", make("strong", {}, after || "–"))));
    }
    if (!said.changed) return [make("p", {}, make("strong", {}, say(said.settings.length ? "versions.same.answers" : "versions.same"))), ...parts];
    for (const region of said.regions) {
      const where = Object.entries(region.where).map(([name, cell]) => `${name} ${cell}`).join(" · ") || say(said.exact ? "versions.everywhere" : "versions.somewhere");
      parts.push(make("div", { class: "finding warning" }, make("div", { class: "where" }, where),
        make("p", {}, region.before, " → ", make("strong", {}, region.after),
          said.exact ? "" : make("span", { class: "soft" }, ` ${say("versions.share", { part: region.cells, all: said.cells })}`)),
        make("p", {}, make("button", { class: "plain", onclick: () => tryRow(region.example) }, say("findings.try")), " ",
          make("span", { class: "soft" }, Object.entries(region.example).filter(([name]) => name in region.where || Object.keys(region.where).length === 0).map(([k, v]) => `${k} = ${shown(v, 4)}`).join(", ")))));
    }
    return parts;
  }
}

customElements.define("versions-view", VersionsView);
