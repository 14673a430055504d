// Elements in one call. Texts are set as text, never as HTML, whoever wrote them.

export function make(kind, about = {}, ...inside) {
  const one = document.createElement(kind);
  for (const [key, value] of Object.entries(about)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) one.addEventListener(key.slice(2), value);
    else if (key === "class") one.className = value;
    else if (key in one && !key.startsWith("aria") && key !== "list" && key !== "form") one[key] = value;
    else one.setAttribute(key, value === true ? "" : value);
  }
  one.append(...inside.flat().filter((part) => part !== null && part !== undefined && part !== false));
  return one;
}

const SPACE = "http://www.w3.org/2000/svg";

export function draw(kind, about = {}, ...inside) {
  const one = document.createElementNS(SPACE, kind);
  for (const [key, value] of Object.entries(about)) {
    if (key.startsWith("on")) one.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null) one.setAttribute(key, value);
  }
  one.append(...inside.flat());
  return one;
}

export const at = (id) => document.getElementById(id);

let counted = 0;
export const fresh = (name) => `${name}-${(counted += 1)}`;

export function field(label, control, hint) {
  control.id ||= fresh("f");
  const note = hint ? make("small", { class: "soft", id: control.id + "-hint" }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return make("div", { class: "field" }, make("label", { htmlFor: control.id }, label), control, note);
}

// a view drawn again: who was in one of its fields stays there, with what was typed since
export function redraw(view, work) {
  const fields = () => [...view.querySelectorAll("input, select, textarea, button, [tabindex]")], last = document.activeElement;
  const place = fields().indexOf(last), typed = last?.matches("input, textarea") ? last.value : null;
  work();
  const again = place < 0 ? null : fields()[place];
  if (!again) return;
  if (typed !== null && again.matches(last.localName)) again.value = typed;
  again.focus({ preventScroll: true });
}

export function choose(options, value, onchange, about = {}) {
  const box = make("select", { onchange: () => onchange(box.value), ...about });
  for (const option of options) {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    box.append(make("option", { value: key, selected: key === value }, text));
  }
  return box;
}
