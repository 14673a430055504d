// A new table: for predictions or for ranges, with columns chosen from the schema.

import { desk } from "./desk.js";
import { titleOf } from "./columns.js";
import { choose, field, make } from "./make.js";
import { say } from "./words.js";

export function askTable() {
  const side = choose([["predict", say("predict.long")], ["range", say("range.long")]], "predict", (value) => { name.value = free(value); });
  const name = make("input", { value: free("predict"), required: true, pattern: "[\\w\\-]+\\.csv" });
  const boxes = (desk.now.schema?.features || []).map((f) => make("input", { type: "checkbox", value: titleOf(f) }));
  const box = make("dialog", { "aria-label": say("tables.new") }, make("form", { method: "dialog", onsubmit: () => {
    const columns = boxes.filter((b) => b.checked).map((b) => b.value);
    desk.change("/api/table", { side: side.value, file: name.value.trim(), columns });
  } },
  make("h2", {}, say("tables.new")), field(say("tables.side"), side), field(say("tables.file"), name),
  make("fieldset", {}, make("legend", {}, say("tables.columns")), boxes.map((b) => make("label", {}, b, " ", b.value))),
  make("p", { class: "line" }, make("button", { class: "main" }, say("tables.make")),
    make("button", { type: "button", onclick: () => box.close() }, say("cancel")))));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

function free(side) {
  const taken = new Set(desk.now.grids.map((grid) => grid.file));
  for (let i = 1; ; i += 1) {
    const name = i === 1 ? `${side}.csv` : `${side}-${i}.csv`;
    if (!taken.has(name)) return name;
  }
}
