// A page opened from a folder may not start a worker, which the search runs in: there a hidden
// frame does the same work. Over HTTP this changes nothing.
class FrameWorker extends EventTarget {
  constructor(address) {
    super();
    this.waiting = [];
    this.onmessage = null;
    this.onerror = null;
    this.frame = document.body.appendChild(document.createElement("iframe"));
    this.frame.hidden = true;
    const inside = this.frame.contentWindow;
    inside.postMessage = (data) => this.hear(new MessageEvent("message", { data: structuredClone(data) }));
    const script = inside.document.createElement("script");
    script.src = address;
    script.onload = () => this.begin();
    script.onerror = () => this.onerror && this.onerror(new ErrorEvent("error", { message: address }));
    inside.document.body.appendChild(script);
  }
  begin() {
    const waiting = this.waiting;
    this.waiting = null;
    waiting.forEach((data) => this.postMessage(data));
  }
  postMessage(data) {
    if (this.waiting) {
      this.waiting.push(data);
      return;
    }
    const inside = this.frame.contentWindow;
    const event = new inside.MessageEvent("message", { data: structuredClone(data) });
    setTimeout(() => inside.dispatchEvent(event));
  }
  hear(event) {
    setTimeout(() => {
      if (this.onmessage) this.onmessage(event);
      this.dispatchEvent(event);
    });
  }
  terminate() {
    this.frame.remove();
  }
}
if (location.protocol === "file:") window.Worker = FrameWorker;
