// The linter's findings as a list; each leads to its cell, and its counterexample to the try-out.

import { desk } from "./desk.js";
import { make } from "./make.js";
import { say, shown } from "./words.js";

const ORDER = ["error", "warning", "info"];

export function listFindings(findings, onchoose) {
  const sorted = [...findings].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
  if (!sorted.length) return make("p", { class: "soft" }, say("findings.none"));
  return make("ul", { class: "findings", tabindex: 0, "aria-label": say("findings") }, sorted.slice(0, 300).map((f) => one(f, onchoose)));
}

function one(finding, onchoose) {
  const row = Object.entries(finding.counterexample || {}), region = Object.keys(finding.region || {});
  const matters = region.length ? region : desk.now.used ?? [], some = row.filter(([name]) => matters.includes(name)), example = some.length ? some : row;
  const line = make("li", { class: `finding ${finding.severity}` },
    make("div", { class: "where" }, make("span", {}, `${say(finding.severity)} ${place(finding)}`),
      finding.cell ? make("button", { class: "plain", onclick: () => onchoose(finding) }, say("findings.show")) : null),
    make("p", {}, finding.message),
    finding.suggestion ? make("p", { class: "mend" }, finding.suggestion) : null);
  if (example.length) {
    line.append(make("p", {}, make("button", { class: "plain", onclick: () => tryRow(finding.counterexample) },
      say("findings.try")), " ", make("span", { class: "soft" }, example.map(([k, v]) => `${k} = ${shown(v, 4)}`).join(", "))));
  }
  return line;
}

function place({ place, cell }) {
  const parts = [place.file];
  if (cell && place.row !== null) parts.push(say("findings.rule", { row: place.row }));
  if (place.column) parts.push(place.column);
  return parts.filter(Boolean).join(" · ");
}

export function tryRow(row) {
  desk.tried = { ...(desk.tried || {}), ...row };
  location.hash = "#try";
}

// by cell and by row, the gravest first: what a grid shows in place
export function marksOf(findings, grid) {
  const marks = new Map();
  const put = (key, finding) => {
    const old = marks.get(key);
    if (!old) marks.set(key, { severity: finding.severity, text: finding.message });
    else {
      if (ORDER.indexOf(finding.severity) < ORDER.indexOf(old.severity)) old.severity = finding.severity;
      old.text += "\n" + finding.message;
    }
  };
  for (const finding of findings) {
    const cell = finding.cell;
    if (!cell || cell.grid !== grid || cell.row === null || cell.row < 0) continue;
    put(`${cell.row}:`, finding);
    if (cell.column !== null) put(`${cell.row}:${cell.column}`, finding);
  }
  return marks;
}
