"use strict";
// A page that lives: parts that have changed come as events and take the place of the old ones, with what was opened, searched
// for and focused. A part whose form is being filled in, or whose text is marked, waits until it is not.
const said = document.getElementById("said");
const shown = new Map(document.body.dataset.shown.split(",").filter(Boolean).map((one) => one.split("=")));
const waiting = new Map();
let source = null;

const edited = (part) => part.contains(document.activeElement) && document.activeElement.matches("form.verb *") ||
  (!getSelection().isCollapsed && part.contains(getSelection().anchorNode)) ||
  [...part.querySelectorAll("form.verb input, form.verb textarea")].some((field) =>
    field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);

function place(name, html, order) {
  // Not a template: in one, as where no script runs, the rows of a closed fold would be elements and not a text.
  const made = document.createElement("div");
  made.innerHTML = html;
  const fresh = made.firstElementChild;
  const old = document.getElementById(name);
  if (!old) {
    const before = order.slice(0, order.indexOf(name)).reverse().map((one) => document.getElementById(one))
      .find((one) => one && one.parentElement.id === "content");
    if (before) before.after(fresh); else document.getElementById("content").prepend(fresh);
    return prepare(fresh);
  }
  const open = [...old.querySelectorAll("details[id]")].filter((one) => one.open).map((one) => one.id);
  const folds = [...old.querySelectorAll("details:not([id])")].map((one) => one.open);
  const form = old.querySelector("form.filter");
  const focused = old.contains(document.activeElement) ? document.activeElement.closest("[id]")?.id : null;
  const asked = form && [form.elements.text.value, form.elements.status.value, form.place()];
  const typing = form && document.activeElement === form.elements.text;
  old.replaceWith(fresh);
  prepare(fresh);
  const now = [...fresh.querySelectorAll("details:not([id])")];
  if (now.length >= folds.length) folds.forEach((one, i) => { if (one) now[i].open = true; });
  if (open.some((id) => !document.getElementById(id))) fresh.querySelectorAll(".chunk").forEach(unfold);
  for (const id of open) if (document.getElementById(id)) document.getElementById(id).open = true;
  const search = fresh.querySelector("form.filter");
  if (search && asked && asked.some((one) => one)) {
    search.only(asked[2]);
    [search.elements.text.value, search.elements.status.value] = asked;
    search.dispatchEvent(new Event("input"));
  }
  if (typing && search) search.elements.text.focus();
  else if (focused) document.getElementById(focused)?.querySelector("summary")?.focus({ preventScroll: true });
}

function apply() {
  for (const [name, [html, digest, order]] of waiting) {
    const old = document.getElementById(name);
    if (old && edited(old)) continue;
    waiting.delete(name);
    place(name, html, order);
    shown.set(name, digest);
  }
}

function receive(event) {
  const { title, order, parts } = JSON.parse(event.data);
  document.title = title;
  for (const [name, [html, digest]] of Object.entries(parts)) {
    if (shown.get(name) === digest) waiting.delete(name); else waiting.set(name, [html, digest, order]);
  }
  for (const name of shown.keys()) {
    if (order.includes(name)) continue;
    document.getElementById(name)?.remove();
    shown.delete(name);
  }
  apply();
}

function listen() {
  const have = [...shown].map((one) => one.join("=")).join(",");
  source = new EventSource(`${document.body.dataset.changes}?have=${encodeURIComponent(have)}`);
  source.addEventListener("parts", receive);
  source.addEventListener("again", () => { source.close(); listen(); });
  source.addEventListener("open", () => { if (said.dataset.lost) { delete said.dataset.lost; said.textContent = ""; } });
  source.addEventListener("error", () => {
    said.dataset.lost = "1";
    said.textContent = "The server does not answer; this page shows how it was. It tries again.";
    source.close();
    setTimeout(listen, 2000);
  });
}
listen();
setInterval(apply, 1000);
addEventListener("pagehide", () => source.close());

// A verb is sent without leaving the page; its answer is a sentence.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form.verb")) return;
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch(form.action, {
      method: "POST", body: new URLSearchParams(new FormData(form)), headers: { accept: "application/json" },
    });
    said.textContent = answer.ok ? `Done: ${button.textContent}` : (await answer.json()).message;
    said.className = answer.ok ? "" : "bad";
    if (answer.ok) form.reset();
  } catch {
    said.textContent = "The server does not answer";
  }
  button.disabled = false;
});
