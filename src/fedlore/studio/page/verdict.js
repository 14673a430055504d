// What was said of one row, in words: the expert, the range, each rule, the model.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { choose, make } from "./make.js";
import { say, shown } from "./words.js";

export function tellVerdict(said, schema, onset) {
  const parts = [make("h2", {}, say("try.answer"))];
  if (said.without) parts.push(make("p", { class: "warn" }, say("try.without", { part: said.without })));
  if (!said.in_scope) parts.push(make("p", { class: "warn" }, say("try.scope")));
  if (said.refused) parts.push(make("p", { class: "warn" }, `${say("try.refused")} ${said.refused}`));
  parts.push(make("p", { class: "soft" }, schema.label), make("p", { class: "big", id: "expert" }, headline(said, schema)));
  if (said.forbidden) parts.push(make("p", { class: "warn" }, say("try.forbidden", { said: said.forbidden })));
  if (said.favoured?.length > 1) parts.push(make("p", { class: "soft" }, say("try.tied")));
  parts.push(make("h3", {}, say("try.allowed")), allowed(said, schema));
  parts.push(make("h3", {}, say("try.rules")), rules(said.rules));
  const other = said.why.filter((line) => !said.rules.some((rule) => line.includes(rule.text)));
  if (other.length) parts.push(make("ul", {}, other.map((line) => make("li", {}, line))));
  if (said.model) parts.push(...model(said.model));
  if (!schema.number && !said.refused) parts.push(nearest(said, schema, onset));
  return parts;
}

function headline(said, schema) {
  if (said.expert !== null) return shown(said.expert) + (schema.unit ? ` ${schema.unit}` : "");
  if (said.allowed?.length === 1) return say("try.only", { name: said.allowed[0] });
  return say(said.forbidden ? "try.unheard" : "try.silent");
}

function allowed(said, schema) {
  if (schema.number) return make("p", {}, `${shown(said.low, 5)} … ${shown(said.high, 5)} ${schema.unit}`);
  const may = new Set(said.allowed);
  return make("p", {}, schema.classes.map((name) => make("span", { class: `chip ${said.favoured.includes(name) ? "is" : may.has(name) ? "may" : "no"}`,
    title: may.has(name) ? say("try.may") : say("try.no") }, name)));
}

function rules(list) {
  if (!list.length) return make("p", { class: "soft" }, say("try.norules"));
  return make("table", { class: "plain" }, make("tbody", {}, list.map((rule) => make("tr", {},
    make("td", {}, make("span", { class: `state ${rule.state}` }, say("rule." + rule.state))),
    make("td", {}, rule.text, why(rule), make("div", { class: "soft" }, `${rule.file}, ${rule.label}${rule.note ? ": " + rule.note : ""}`))))));
}

function why(rule) {
  if (!rule.because) return "";
  const told = rule.state === "loses" || rule.state === "unheard";
  const text = told ? say("because." + rule.state, { other: rule.because }) : say("because." + rule.because);
  return make("div", {}, text);
}

function model(said) {
  if (said.fault) return [make("h3", {}, say("try.model", { name: said.name })), make("p", { class: "soft" }, said.fault)];
  return [make("h3", {}, say("try.model", { name: said.name })),
    make("p", {}, make("strong", {}, shown(said.predicted)), " ", make("span", { class: "soft" }, say("decided." + said.decided))),
    make("ul", {}, said.reasons.map((line) => make("li", {}, line)))];
}

// the smallest change that makes it another class
function nearest(said, schema, onset) {
  const note = make("p", { class: "soft", "aria-live": "polite" });
  const box = choose([["", say("nearest.choose")], ...schema.classes.filter((c) => c !== said.expert)], "", async (wanted) => {
    if (!wanted) return;
    const { change } = await ask("/api/nearest", { row: desk.tried, wanted }).catch((error) => ({ change: error }));
    if (change instanceof Error) note.textContent = change.message;
    else if (change === null) note.textContent = say("nearest.none", { wanted });
    else {
      const text = Object.entries(change).map(([k, v]) => `${k} = ${shown(v)}`).join(", ");
      note.replaceChildren(say("nearest.found", { wanted, text }), " ", make("button", { class: "plain", onclick: () => onset(change) }, say("findings.try")));
    }
  }, { "aria-label": say("nearest") });
  return make("div", {}, make("h3", {}, say("nearest")), box, note);
}
