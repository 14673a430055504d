// Saving: who, why, and what would break.

import { desk } from "./desk.js";
import { field, make } from "./make.js";
import { say } from "./words.js";

export async function askSave() {
  await desk.settle();
  if (desk.state !== "draft") return;
  const who = make("input", { value: desk.who, required: true, autocomplete: "name" });
  const why = make("input", { autocomplete: "off", placeholder: say("save.why.hint") });
  const broken = desk.now.findings.filter((f) => f.kind === "example");
  const box = make("dialog", { "aria-label": say("save") }, make("form", { method: "dialog", onsubmit: () => {
    desk.who = who.value.trim();
    desk.change("/api/save", { why: why.value.trim(), anyway: broken.length > 0 });
  } },
  make("h2", {}, say("save.title")),
  make("p", { class: "soft" }, say("save.files", { files: desk.now.draft.join(", ") })),
  grave() ? make("p", { class: "warn" }, say("save.errors", { count: grave() })) : null,
  broken.length ? make("div", { class: "warn" }, make("p", {}, say("save.broken", { count: broken.length })),
    make("ul", {}, broken.slice(0, 5).map((f) => make("li", {}, `${say("findings.example", { row: f.place.row })}: ${f.message}`)))) : null,
  field(say("save.who"), who), field(say("save.why"), why),
  make("p", { class: "line" }, make("button", { class: "main" }, say(broken.length ? "save.anyway" : "save")),
    make("button", { type: "button", onclick: () => box.close() }, say("cancel")))));
  const back = document.activeElement;
  box.addEventListener("close", () => { box.remove(); (back?.isConnected && !back.disabled ? back : document.getElementById("main")).focus(); });
  document.body.append(box);
  box.showModal();
}

const grave = () => desk.now.findings.filter((f) => f.severity === "error" && f.kind !== "example").length;
