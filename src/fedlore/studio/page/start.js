// The frame of the page: views, what state the draft is in, saving, and being told by others.

import { ask, setToken } from "./ask.js";
import { desk } from "./desk.js";
import { at, choose, make } from "./make.js";
import { askSave } from "./saving.js";
import { language, otherLanguages, say, speak } from "./words.js";
import "./rules.js";
import "./formulas.js";
import "./tryout.js";
import "./examples.js";
import "./versions.js";
import "./data.js";
import "./settings.js";
import "./opening.js";

const VIEWS = { rules: "rules-view", formulas: "formulas-view", try: "try-view", examples: "examples-view", data: "data-view", versions: "versions-view", settings: "settings-view" };

function view() { return location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "rules"; }

function show() {
  const empty = desk.now && !desk.now.exists;
  const name = empty ? "opening-view" : VIEWS[view()];
  if (at("main").firstElementChild?.localName !== name) at("main").replaceChildren(make(name));
  for (const link of at("views").children) {
    if (link.hash === "#" + view()) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  at("views").hidden = Boolean(empty);
}

function frame() {
  document.title = `${desk.now.name}: ${say("title")}`;
  at("site").textContent = desk.now.name;
  at("sub").textContent = say("title");
  at("views").setAttribute("aria-label", say("views"));
  at("views").replaceChildren(...Object.keys(VIEWS).map((name) => make("a", { href: "#" + name }, say("view." + name))));
  const tongues = otherLanguages(() => location.reload());
  at("acts").replaceChildren(
    choose(tongues.map(({ tag, name }) => [tag, name]), language, (tag) => tongues.find((one) => one.tag === tag).take(), { id: "language", "aria-label": say("language") }),
    make("button", { id: "undo", onclick: () => desk.undo() }, say("undo")), make("button", { id: "redo", onclick: () => desk.redo() }, say("redo")),
    make("button", { id: "discard", onclick: () => confirm(say("discard.sure")) && desk.change("/api/discard", {}) }, say("discard")),
    make("button", { id: "save", class: "main", onclick: askSave }, say("save")),
  );
  show();
}

function count(findings) {
  const link = at("views").children[0];
  if (!link) return;
  const grave = findings.filter((f) => f.severity === "error" && f.kind !== "example").length;
  const some = findings.filter((f) => f.severity === "warning").length;
  link.replaceChildren(say("view.rules"));
  if (grave || some) link.append(make("span", { class: grave ? "count" : "count some", title: say("count", { errors: grave, warnings: some }) }, String(grave || some)));
  const broken = findings.filter((f) => f.kind === "example").length, tests = at("views").querySelector("[href='#examples']");
  tests.replaceChildren(say("view.examples"));
  if (broken) tests.append(make("span", { class: "count", title: say("examples.broken", { count: broken }) }, String(broken)));
}

function state({ state: now, why }) {
  at("state").className = now;
  at("state").textContent = say("state." + now);
  const idle = now === "clean";
  if (at("save")) {
    at("save").disabled = idle; at("discard").disabled = idle;
    for (const id of ["undo", "redo"]) Object.assign(at(id), { disabled: !desk.now[id], title: desk.now[id] });
    if (document.activeElement?.disabled) at("main").focus({ preventScroll: true });
  }
  const banner = at("banner");
  banner.hidden = !["away", "stale", "refused"].includes(now) && !desk.now?.fault;
  if (now === "stale") {
    banner.replaceChildren(make("span", {}, why), make("button", { onclick: () => desk.loadNewer() }, say("stale.load")),
      desk.pending ? make("button", { onclick: () => desk.keepMine().catch((e) => desk.fail(e)) }, say("stale.mine")) : "");
  } else if (now === "away") banner.replaceChildren(say("away"));
  else if (now === "refused") banner.replaceChildren(make("span", {}, why), desk.pending ? "" : make("button", { onclick: () => desk.load() }, say("again")));
  else banner.replaceChildren(desk.now?.fault || "");
}

async function start() {
  try {
    await desk.load();
  } catch (error) {
    at("door").hidden = false;
    at("asked").textContent = say("door");
    if (error.status !== 401) { at("banner").hidden = false; at("banner").textContent = error.message || say("away"); }
    return;
  }
  at("door").hidden = true;
  frame();
  desk.addEventListener("desk", () => { at("site").textContent = desk.now.name; show(); });
  count(desk.now.findings);
  state({ state: desk.state, why: "" });
}

addEventListener("hashchange", () => { show(); at("main").focus({ preventScroll: true }); });
addEventListener("beforeunload", (event) => { if (desk.pending) event.preventDefault(); });
addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase(), typing = event.target.matches?.("input, textarea, dialog *");   // there the browser takes back letters
  if (!(event.ctrlKey || event.metaKey) || event.altKey || !(key === "s" || (!typing && (key === "z" || key === "y")))) return;
  event.preventDefault();
  if (key !== "s") (key === "y" || event.shiftKey ? desk.redo() : desk.undo());
  else if (desk.state !== "clean") askSave();
});
at("door").addEventListener("submit", (event) => { event.preventDefault(); setToken(at("token").value.trim()); start(); });
desk.addEventListener("state", (event) => state(event.detail));
desk.addEventListener("findings", (event) => count(event.detail));

const health = await ask("/health");
await speak(health.languages);
if (health.token) { at("door").hidden = false; at("asked").textContent = say("door"); } else await start();
document.documentElement.dataset.ready = "yes";
