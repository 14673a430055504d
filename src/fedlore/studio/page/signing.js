// Signing: the owner says that these rules are his; the key stays at the site behind a passphrase.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { field, make } from "./make.js";
import { say, when } from "./words.js";

export async function signPart() {
  const part = make("section", { "aria-label": say("sign") }, make("h2", {}, say("sign")), make("p", { class: "soft" }, say("sign.help")));
  const said = await ask("/api/signature").catch((error) => ({ fault: error.message, key: true }));
  const note = make("p", { "aria-live": "polite", id: "signed" }, said.fault || say("sign.by", { signer: said.signer, when: when(said.date) }));
  const who = make("input", { value: desk.who, required: true, autocomplete: "name" });
  const words = make("input", { type: "password", required: true, minLength: 8, autocomplete: "off" });
  part.append(note, make("form", { class: "card", onsubmit: async (event) => {
    event.preventDefault();
    note.textContent = await ask("/api/sign", { signer: who.value.trim(), passphrase: words.value })
      .then((made) => say("sign.by", { signer: made.signer, when: when(made.date) }), (error) => error.message);
    words.value = "";
  } }, make("div", { class: "fields" }, field(say("save.who"), who), field(say("sign.words"), words, said.key ? "" : say("sign.first"))),
  make("p", {}, make("button", { class: "main", disabled: desk.state !== "clean" }, say("sign")), desk.state === "clean" ? "" : make("span", { class: "soft" }, " " + say("sign.save")))));
  return part;
}
