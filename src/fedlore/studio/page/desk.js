// The state of the page: what the service said last, and what was typed since.

import { ask, Refused } from "./ask.js";
import { say } from "./words.js";

const LARGE = 1000;       // rules; beyond it the linter waits for a longer pause
const PAUSE = 150;        // milliseconds after the last keystroke
const AGAIN = 2000;       // milliseconds until a silent service is asked once more

export class Desk extends EventTarget {
  constructor() {
    super();
    this.now = null;      // what /api/desk said
    this.tried = null;    // the row of the try-out
    this.state = "clean"; // clean, draft, sending, away, stale
    this.pending = null;  // a table that was typed and not sent: {grid, header, rows}
    this.timer = 0;
    this.busy = false;
    this.turn = Promise.resolve();   // one change after the other
    this.timing = null;   // milliseconds from the last change to its findings
  }

  get who() { try { return localStorage.getItem("who") || ""; } catch { return ""; } }
  set who(name) { try { localStorage.setItem("who", name); } catch { /* a private window */ } }

  tell(kind, detail) { this.dispatchEvent(new CustomEvent(kind, { detail })); }

  hear(kind, listener, owner) {
    const heard = (event) => (owner && !owner.isConnected ? this.removeEventListener(kind, heard) : listener(event.detail));
    this.addEventListener(kind, heard);
  }

  async load() { this.take(await ask("/api/desk")); }

  // what others made of it, and nothing of what was typed here
  async loadNewer() {
    keep(null);
    this.pending = null;
    await this.load();
  }

  // whether others changed the state: another window, or a program that wrote to the files
  async look() {
    if (!this.now || this.busy || this.pending || ["away", "stale"].includes(this.state)) return;
    const { token, saved } = await ask("/api/state");
    if (this.busy || this.pending || (token === this.now.token && saved === this.now.saved)) return;
    if (this.now.draft.length && token === this.now.token) this.set("stale", say("stale.disk"));
    else await this.load();
  }

  take(said) {
    const typed = recall();   // meanwhile, or when this window, or the service, was ended
    const same = typed && JSON.stringify(said.grids[typed.grid]?.header) === JSON.stringify(typed.header);
    if (same) said.grids[typed.grid].rows = typed.rows;
    this.now = said;
    this.pending = null;
    this.set(said.draft.length ? "draft" : "clean");
    this.tell("desk", said);
    this.tell("findings", said.findings);
    if (same) this.type(typed.grid, typed.header, typed.rows); else keep(null);
  }

  set(state, why = "") { this.state = state; this.tell("state", { state, why }); }

  get large() { return this.now.grids.some((grid) => (grid.rows?.length ?? 0) > LARGE); }

  // a table as it is now; sent once nobody types for a moment
  type(grid, header, rows) {
    Object.assign(this.now.grids[grid], { header, rows });
    this.pending = { grid, header, rows, began: performance.now() };
    keep({ grid, header, rows });
    this.set("sending");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), this.large ? 2 * PAUSE : PAUSE);
  }

  async send() {
    clearTimeout(this.timer);
    if (this.busy || !this.pending) return;
    const { began, ...sent } = this.pending;
    this.pending = null;
    this.busy = true;
    try {
      const said = await ask("/api/table", { ...sent, token: this.now.token, who: this.who }, "PUT");
      this.now.token = said.token;
      Object.assign(this.now, { draft: said.draft, undo: said.undo, redo: said.redo });
      if (!this.pending) keep(null);
      if (said.findings) {
        this.now.findings = said.findings;
        this.timing = performance.now() - began;
        this.tell("findings", said.findings);
      }
      if (!this.pending) this.set(said.draft.length ? "draft" : "clean");
    } catch (error) {
      this.pending ||= { ...sent, began };   // typed text stays here until it is kept
      this.fail(error);
      return;
    } finally { this.busy = false; }
    if (this.pending) this.send();
  }

  fail(error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 409 && this.state === "away" && this.pending) this.keepMine().catch((e) => this.fail(e));   // the service was ended before it could answer
    else if (error.status === 409) this.set("stale", error.message);
    else if (error.status === 0) {
      this.set("away");
      this.timer = setTimeout(() => (this.pending ? this.send() : this.load().catch((e) => this.fail(e))), AGAIN);
    } else this.set("refused", error.message);
  }

  // everything typed is kept before anything else is asked
  async settle() {
    clearTimeout(this.timer);
    while (this.busy) await new Promise((done) => setTimeout(done, 20));
    if (this.pending) await this.send();
  }

  change(path, body, method = "POST") { const now = () => this.changeNow(path, body, method);
    return (this.turn = this.turn.then(now, now));
  }

  undo() { return this.change("/api/undo", {}); }
  redo() { return this.change("/api/redo", {}); }

  async changeNow(path, body, method) {
    await this.settle();
    try {
      const said = await ask(path, { ...body, token: this.now.token, who: this.who }, method);
      this.take(said);
      return said;
    } catch (error) {
      this.fail(error);
      return null;
    }
  }

  edit(edits, what) { return this.change("/api/document", { edits, what }, "PUT"); }

  // this window's table over whatever came in between
  async keepMine() {
    const mine = this.pending;
    this.now.token = (await ask("/api/desk")).token;
    this.pending = mine;
    if (mine) await this.send(); else await this.load();
  }
}

const TYPED = "typed";

function keep(table) {
  try { if (table) sessionStorage.setItem(TYPED, JSON.stringify(table)); else sessionStorage.removeItem(TYPED); } catch { /* a private window */ }
}

function recall() {
  try { return JSON.parse(sessionStorage.getItem(TYPED)); } catch { return null; }
}

export const desk = new Desk();
setInterval(() => desk.look().catch((error) => desk.fail(error)), AGAIN);
