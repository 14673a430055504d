// A folder without knowledge: a first file from the site's rows.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { choose, field, make } from "./make.js";
import { say } from "./words.js";

export class OpeningView extends HTMLElement {
  async connectedCallback() {
    this.replaceChildren(make("h2", {}, say("opening.title")), make("p", {}, desk.now.data ? say("opening.rows", { file: desk.now.data }) : say("opening.none")));
    if (!desk.now.data) return;
    let columns;
    try { columns = await ask("/api/columns"); } catch (error) { this.append(make("p", { class: "warn" }, error.message)); return; }
    const label = choose(columns, columns.at(-1), () => {}, { id: "label" });
    this.append(make("form", { class: "card", onsubmit: (event) => {
      event.preventDefault();
      desk.change("/api/start", { label: label.value });
    } }, field(say("opening.label"), label), make("p", {}, make("button", { class: "main", id: "begin" }, say("opening.begin")))));
  }
}

customElements.define("opening-view", OpeningView);
