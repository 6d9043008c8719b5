// A page that is opened from the disk may start no worker: there the search runs in a hidden frame instead, with the same messages.
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    addEventListener("message", (event) => {
      if (event.source === inside) {
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      }
    });
    inside.document.open();
    inside.document.write(`<script>
      postMessage = parent.postMessage.bind(parent);
      importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = url; script.onload = done; script.onerror = failed;
        document.body.append(script);
      })), Promise.resolve());
    </scr` + `ipt><body><script src="${url}"></scr` + `ipt></body>`);
    inside.document.close();
    this.ready = new Promise((done) => (this.frame.onload = done));
  }
  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data, source: window })));
  }
  terminate() {
    this.frame.remove();
  }
}
if (location.protocol === "file:") self.Worker = FrameWorker;
