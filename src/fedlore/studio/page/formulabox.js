// A field for a formula, or for the rows in which something holds; the fault is marked where it stands.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { field, fresh, make } from "./make.js";
import { say, shown } from "./words.js";

// put: told the text, null for none
export function formulaBox(label, text, put, region = false) {
  const note = make("pre", { class: "note formula", id: fresh("note"), "aria-live": "polite" });
  const box = make("textarea", { class: "formula", rows: region ? 1 : 2, value: text, spellcheck: false,
    oninput: () => look(box, note, region), onkeydown: (e) => complete(e, box),
    onchange: () => (box.value.trim() || text) && put(box.value.trim() || null) });
  if (text) look(box, note, region);
  const one = field(label, box);
  box.setAttribute("aria-describedby", note.id);
  one.append(note);
  return one;
}

async function look(box, note, region) {
  const text = box.value;
  const said = await ask("/api/formula", { text, region }).catch((error) => ({ ok: false, message: error.message, position: null }));
  if (box.value !== text) return;                    // typed on in the meantime
  box.classList.toggle("wrong", !said.ok && text !== "");
  if (said.ok) note.textContent = said.low === null ? say("formulas.good") : say("formulas.bounds", { low: shown(said.low, 4), high: shown(said.high, 4) });
  else note.textContent = text === "" ? "" : said.position === null ? said.message : `${line(text, said.position)}\n${said.message}`;
  note.className = `note formula${said.ok ? " soft" : " bad"}`;
}

// the line of the fault with a mark below it
function line(text, position) {
  const begin = text.lastIndexOf("\n", position - 1) + 1;
  const end = text.indexOf("\n", position);
  return `${text.slice(begin, end < 0 ? undefined : end)}\n${" ".repeat(position - begin)}^`;
}

// Tab behind the beginning of a name writes the rest of it, where there is one rest only
function complete(event, box) {
  if (event.key !== "Tab" || event.shiftKey) return;
  const before = box.value.slice(0, box.selectionStart), word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before)?.[0];
  const names = [...(desk.now.schema?.features.map((f) => f.name) || []), "where", "min", "max", "log10", "log", "exp", "sqrt", "abs", "interpolate"];
  const found = word ? names.filter((name) => name.startsWith(word) && name !== word) : [];
  if (found.length !== 1) return;
  event.preventDefault();
  box.setRangeText(found[0].slice(word.length), box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
}

// a field for a number; told the number, or null where it was emptied
export function numberBox(value, put, usual = "") {
  const box = make("input", { value: value ?? usual, inputMode: "decimal", onchange: () => {
    const text = box.value.trim().replace(",", ".");
    if (text === "") { if (value !== undefined && value !== null) put(null); return; }
    box.classList.toggle("wrong", Number.isNaN(Number(text)));
    if (!Number.isNaN(Number(text))) put(Number(text));
  } });
  return box;
}

// "0.9", "90 %" or "9 of 10" of the cases; empty: always
export function confidenceBox(value, put) {
  const box = make("input", { value: value ?? "", onchange: () => {
    const text = box.value.trim().replace(",", "."), share = /^([\d.]+)\s*%$/.exec(text), of = /^(\d+)\s*(?:of|\/)\s*(\d+)$/.exec(text);
    const found = share ? Number(share[1]) / 100 : of ? of[1] / of[2] : Number(text);
    box.classList.toggle("wrong", Number.isNaN(found));
    if (text === "") { if (value !== undefined) put(null); } else if (!Number.isNaN(found)) put(found);
  } });
  return field(say("confidence"), box, say("confidence.hint"));
}
