// The cells of one table: pure, so that it can be tried without a page.

export class Sheet {
  constructor(header, rows) {
    this.header = [...header];
    this.rows = rows.map((row) => [...row]);
  }

  get width() { return this.header.length; }
  get(row, column) { return this.rows[row]?.[column] ?? ""; }
  blank() { return Array(this.width).fill(""); }

  // whether anything changed
  change(work) {
    const before = { header: [...this.header], rows: this.rows };
    this.rows = this.rows.map((row) => row);   // rows are replaced, never written into
    work();
    const same = before.rows.length === this.rows.length && before.header.join("\t") === this.header.join("\t")
      && this.rows.every((row, i) => row === before.rows[i]);
    if (same) { this.rows = before.rows; return false; }
    return true;
  }

  put(row, column, text) {
    while (this.rows.length <= row) this.rows.push(this.blank());
    if (this.rows[row][column] === text) return;
    this.rows[row] = this.rows[row].map((cell, i) => (i === column ? text : cell));
  }

  set(row, column, text) {
    return this.change(() => { if (text !== "" || row < this.rows.length) this.put(row, column, text); });
  }

  // texts from a corner on; a single text fills the whole selection
  paste(area, texts, adapt = (text) => text) {
    return this.change(() => {
      const one = texts.length === 1 && texts[0].length === 1;
      const tall = one ? area.bottom - area.top + 1 : texts.length;
      for (let i = 0; i < tall; i += 1) {
        const line = one ? Array(area.right - area.left + 1).fill(texts[0][0]) : texts[i];
        line.forEach((text, j) => {
          if (area.left + j < this.width) this.put(area.top + i, area.left + j, adapt(text, area.left + j));
        });
      }
    });
  }

  copy(area) {
    const found = [];
    for (let i = area.top; i <= area.bottom; i += 1) {
      found.push(Array.from({ length: area.right - area.left + 1 }, (_, j) => this.get(i, area.left + j)));
    }
    return found;
  }

  clear(area) {
    return this.change(() => {
      for (let i = area.top; i <= Math.min(area.bottom, this.rows.length - 1); i += 1) {
        for (let j = area.left; j <= area.right; j += 1) this.put(i, j, "");
      }
    });
  }

  fillDown(area) {
    return this.change(() => {
      const from = area.top === area.bottom ? area.top - 1 : area.top;
      if (from < 0) return;
      for (let i = from + 1; i <= area.bottom; i += 1) {
        for (let j = area.left; j <= area.right; j += 1) this.put(i, j, this.get(from, j));
      }
    });
  }

  insert(row, count = 1) {
    return this.change(() => { this.rows.splice(row, 0, ...Array.from({ length: count }, () => this.blank())); });
  }

  remove(top, bottom) { return this.change(() => { this.rows.splice(top, bottom - top + 1); }); }

  move(top, bottom, by) {
    const to = top + by;
    if (to < 0 || bottom + by >= this.rows.length) return false;
    return this.change(() => { this.rows.splice(to, 0, ...this.rows.splice(top, bottom - top + 1)); });
  }

  addColumn(title, place) {
    return this.change(() => {
      this.header.splice(place, 0, title);
      this.rows = this.rows.map((row) => [...row.slice(0, place), "", ...row.slice(place)]);
    });
  }

  removeColumn(place) {
    return this.change(() => {
      this.header.splice(place, 1);
      this.rows = this.rows.map((row) => row.filter((_, i) => i !== place));
    });
  }
}
