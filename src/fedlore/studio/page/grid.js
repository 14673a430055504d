// <rule-grid>: a table that behaves like a spreadsheet, after the ARIA pattern of a grid.
// Only the rows in sight exist as elements, so five thousand rules are as light as fifty.

import { formatTable, parseTable } from "./clipboard.js";
import { press } from "./gridkeys.js";
import { fresh, make } from "./make.js";
import { say } from "./words.js";

const TALL = 32;     // pixels of a row, as in grid.css
const BEYOND = 8;    // rows kept above and below the window

export class RuleGrid extends HTMLElement {
  // first: the row of the header, as the spreadsheet and the linter number it
  // columns: [{title, unit, hint, role, offers}], marks: Map "row:column" -> {severity, text}
  open({ sheet, columns, label, first = 1, adapt, onchange, onmove }) {
    Object.assign(this, { sheet, columns, first, adapt, onchange, onmove, marks: new Map(), marked: new Map() });
    this.row = 0; this.column = 0;          // the active cell
    this.from = null;                       // the other corner of the selection
    this.editing = null;
    this.drawn = new Map();
    this.code = fresh("grid");
    this.body = make("div", { class: "rows", role: "rowgroup" });
    this.offers = make("datalist", { id: this.code + "-offers" });
    this.replaceChildren(this.offers);
    this.sides = make("div", {
      class: "sheet", role: "grid", tabindex: 0, "aria-label": label, "aria-multiselectable": "true",
      onkeydown: (e) => press(this, e), onscroll: () => this.show(), oncopy: (e) => this.copy(e),
      oncut: (e) => this.copy(e, true), onpaste: (e) => this.paste(e),
      onpointerdown: (e) => this.point(e), onpointermove: (e) => this.drag(e),
      ondblclick: () => this.edit(null),
      onfocusout: () => setTimeout(() => { if (!this.contains(document.activeElement)) this.typing = false; }),
    }, this.heads(), this.body);
    this.append(this.sides);
    new ResizeObserver(() => this.isConnected && this.show()).observe(this.sides);
    this.refresh();
  }

  get area() {
    const other = this.from || this;
    return {
      top: Math.min(this.row, other.row), bottom: Math.max(this.row, other.row),
      left: Math.min(this.column, other.column), right: Math.max(this.column, other.column),
    };
  }

  get page() { return Math.max(1, Math.floor(this.sides.clientHeight / TALL) - 2); }
  get last() { return this.sheet.rows.length; }   // one row more than there are: the next rule

  heads() {
    const line = make("div", { class: "row head", role: "row", "aria-rowindex": 1 });
    line.append(make("div", { class: "cell corner", role: "columnheader", "aria-colindex": 1 }, say("grid.row")));
    this.columns.forEach((column, j) => line.append(make("div", {
      class: `cell ${column.role}`, role: "columnheader", "aria-colindex": j + 2, title: column.hint,
    }, make("span", { class: "name" }, column.title), column.unit ? make("span", { class: "unit" }, column.unit) : null)));
    return make("div", { role: "rowgroup", class: "heads" }, line);
  }

  widths() {
    const most = this.columns.map((column) => Math.min(22, Math.max(8, column.title.length + (column.unit || "").length + 4)));
    const sample = this.sheet.rows.length > 400 ? this.sheet.rows.filter((_, i) => i % 25 === 0) : this.sheet.rows;
    for (const row of sample) row.forEach((cell, j) => { most[j] = Math.min(j === most.length - 1 ? 40 : 26, Math.max(most[j], cell.length + 2)); });
    return `4.5rem ${most.map((n) => `${n}ch`).join(" ")}`;
  }

  refresh() {
    this.style.setProperty("--columns", this.widths());
    this.sides.setAttribute("aria-rowcount", this.last + 2);
    this.sides.setAttribute("aria-colcount", this.columns.length + 1);
    this.body.style.height = `${(this.last + 1) * TALL}px`;
    for (const line of this.drawn.values()) line.remove();
    this.drawn.clear();
    this.row = Math.min(this.row, this.last);
    this.column = Math.min(this.column, this.columns.length - 1);
    this.show();
  }

  show() {
    const above = Math.max(0, Math.floor(this.sides.scrollTop / TALL) - BEYOND);
    const below = Math.min(this.last, above + Math.ceil((this.sides.clientHeight || 600) / TALL) + 2 * BEYOND);
    for (const [i, line] of this.drawn) {
      if ((i < above || i > below) && !(this.editing && i === this.row)) { line.remove(); this.drawn.delete(i); }
    }
    for (let i = above; i <= below; i += 1) if (!this.drawn.has(i)) this.line(i);
    this.paint();
  }

  line(i) {
    const ghost = i === this.last;
    const line = make("div", { class: ghost ? "row ghost" : "row", role: "row", "aria-rowindex": i + 2 });
    line.style.top = `${i * TALL}px`;
    const number = ghost ? "+" : String(this.first + 1 + i);
    line.append(make("div", { class: "cell number", role: "rowheader", "aria-colindex": 1, "aria-label": ghost ? say("grid.new") : number }, number));
    this.columns.forEach((column, j) => line.append(make("div", {
      class: `cell ${column.role}`, role: "gridcell", id: `${this.code}-${i}-${j}`, "aria-colindex": j + 2,
    }, this.sheet.get(i, j))));
    const next = [...this.drawn.keys()].filter((k) => k > i).sort((a, b) => a - b)[0];
    this.body.insertBefore(line, next === undefined ? null : this.drawn.get(next));   // in reading order
    this.drawn.set(i, line);
  }

  // which cells are active, selected and marked
  paint() {
    const { top, bottom, left, right } = this.area;
    for (const [i, line] of this.drawn) {
      const rowMark = this.marks.get(`${i}:`);
      const head = line.firstChild;
      head.className = `cell number${rowMark ? " " + rowMark.severity : ""}${this.marked.has(i) ? " tried " + this.marked.get(i) : ""}`;
      head.title = rowMark?.text || "";
      for (let j = 0; j < this.columns.length; j += 1) {
        const cell = line.children[j + 1], mark = this.marks.get(`${i}:${j}`);
        const chosen = i >= top && i <= bottom && j >= left && j <= right;
        const active = i === this.row && j === this.column;
        cell.className = `cell ${this.columns[j].role}${active ? " active" : ""}${chosen && this.from ? " chosen" : ""}${mark ? " " + mark.severity : ""}`;
        cell.setAttribute("aria-selected", String(chosen));
        if (mark) cell.setAttribute("aria-invalid", String(mark.severity === "error")); else cell.removeAttribute("aria-invalid");
        if (mark) cell.title = mark.text; else cell.removeAttribute("title");
      }
    }
    if (this.drawn.has(this.row)) this.sides.setAttribute("aria-activedescendant", `${this.code}-${this.row}-${this.column}`);
    else this.sides.removeAttribute("aria-activedescendant");
  }

  mark(marks) { this.marks = marks; this.paint(); this.onmove?.(this.row, this.column); }

  go(row, column, extend = false) {
    if (this.editing) this.commit();
    this.from = extend ? this.from || { row: this.row, column: this.column } : null;
    this.row = Math.max(0, Math.min(row, this.last));
    this.column = Math.max(0, Math.min(column, this.columns.length - 1));
    this.reveal();
    this.show();
    this.onmove?.(this.row, this.column);
  }

  reveal() {
    const top = this.row * TALL, room = this.sides.clientHeight - TALL - 4;
    if (top < this.sides.scrollTop) this.sides.scrollTop = top;
    else if (top + TALL > this.sides.scrollTop + room) this.sides.scrollTop = top + TALL - room;
    const cell = this.drawn.get(this.row)?.children[this.column + 1];
    if (!cell) return;
    const fixed = this.drawn.get(this.row).firstChild.offsetWidth;
    if (cell.offsetLeft - fixed < this.sides.scrollLeft) this.sides.scrollLeft = cell.offsetLeft - fixed;
    else if (cell.offsetLeft + cell.offsetWidth > this.sides.scrollLeft + this.sides.clientWidth) this.sides.scrollLeft = cell.offsetLeft + cell.offsetWidth - this.sides.clientWidth;
  }

  // text: what is typed over the cell; null keeps what is there
  edit(text) {
    if (this.editing) return;
    this.show();
    const cell = this.drawn.get(this.row)?.children[this.column + 1];
    if (!cell) return;
    const column = this.columns[this.column];
    const before = this.sheet.get(this.row, this.column);
    this.offers.replaceChildren(...column.offers().map((offer) => make("option", { value: offer })));
    const box = make("input", {
      class: "edit", value: text ?? before, list: this.offers.id, spellcheck: false, autocomplete: "off",
      "aria-label": `${column.title}, ${say("grid.row")} ${this.first + 1 + this.row}`,
      onblur: () => this.editing && this.commit(),
    });
    this.typing = true;
    this.editing = { box, typed: text !== null };
    cell.replaceChildren(box);
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  }

  commit() {
    if (!this.editing) return;
    const text = this.adapt(this.editing.box.value.trim(), this.column);
    this.close();
    this.did(this.sheet.set(this.row, this.column, text));
  }

  close() {
    const cell = this.editing.box.parentElement;
    this.editing = null;
    cell?.replaceChildren(this.sheet.get(this.row, this.column));
    this.sides.focus({ preventScroll: true });
  }

  did(changed) {
    if (!changed) return;
    this.refresh();
    this.onchange(this.sheet.header, this.sheet.rows);
    this.onmove?.(this.row, this.column);
  }

  copy(event, cut = false) {
    if (this.editing) return;
    event.clipboardData.setData("text/plain", formatTable(this.sheet.copy(this.area)));
    event.preventDefault();
    if (cut) this.did(this.sheet.clear(this.area));
  }

  paste(event) {
    if (this.editing) return;
    event.preventDefault();
    const texts = parseTable(event.clipboardData.getData("text/plain"));
    const tidy = (text, column) => this.adapt(text.trim(), column);
    const { top, left } = this.area;
    const changed = this.sheet.paste(this.area, texts, tidy);
    this.from = null;
    this.row = top; this.column = left;
    if (texts.length > 1 || texts[0].length > 1) {
      this.from = { row: Math.min(top + texts.length - 1, this.last - 1), column: Math.min(left + texts[0].length - 1, this.columns.length - 1) };
    }
    this.did(changed);
  }

  place(event) {
    const cell = event.target.closest?.(".cell"), line = cell?.parentElement;
    if (!line?.hasAttribute("aria-rowindex") || line.classList.contains("head")) return null;
    const number = cell.classList.contains("number");
    return { row: Number(line.getAttribute("aria-rowindex")) - 2, column: Number(cell.getAttribute("aria-colindex")) - 2, number };
  }

  point(event) {
    const place = this.place(event);
    if (!place || event.button !== 0 || event.target.classList.contains("edit")) return;
    event.preventDefault();
    if (place.number) {                     // the whole rule
      this.go(place.row, this.columns.length - 1);
      this.from = { row: place.row, column: 0 };
      this.paint();
    } else this.go(place.row, place.column, event.shiftKey);
    this.sides.focus({ preventScroll: true });
  }

  drag(event) {
    if (event.buttons !== 1 || this.editing) return;
    const place = this.place(event);
    if (place && !place.number && (place.row !== this.row || place.column !== this.column)) this.go(place.row, place.column, true);
  }
}

customElements.define("rule-grid", RuleGrid);
