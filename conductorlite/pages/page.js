"use strict";
// Everything is on the page already: this finds, filters and opens. A fold's rows are one text until they are asked for.
const unfold = (fold) => {
  for (const text of fold.querySelectorAll(":scope > noscript")) text.outerHTML = text.textContent;
};

// Makes what is new on the page work: all of it at first, then each part that has changed.
function prepare(root) {
  for (const fold of root.querySelectorAll(".chunk")) fold.addEventListener("toggle", () => fold.open && unfold(fold));
  for (const form of root.querySelectorAll("form.filter")) finder(form);
}

function finder(form) {
  const scope = document.getElementById(form.dataset.of);
  const folds = [...scope.querySelectorAll(".chunk")];
  const opened = folds.map((fold) => fold.open);
  const [text, status, count] = [form.elements.text, form.elements.status, form.querySelector("output")];
  let place = null;
  let rows = null;

  const show = () => {
    const wanted = text.value.trim().toLowerCase();
    const all = !wanted && !status.value && place === null;
    folds.forEach(unfold);
    rows ??= [...scope.querySelectorAll("[data-s]")].map((row) => ({ row, words: row.textContent.toLowerCase() }));
    let shown = 0;
    for (const { row, words } of rows) {
      const fits = (!status.value || row.dataset.s === status.value) && (place === null || row.dataset.n === place) &&
        (!wanted || words.includes(wanted));
      row.hidden = !fits;
      shown += fits;
    }
    folds.forEach((fold, i) => {
      fold.hidden = !all && fold.querySelector("[data-s]:not([hidden])") === null;
      fold.open = all ? opened[i] : !fold.hidden;
    });
    count.textContent = all ? "" : `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
  };

  form.hidden = false;
  form.only = (number) => {
    text.value = status.value = "";
    place = number;
    show();
  };
  form.place = () => place;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => { place = null; setTimeout(show); });
}

// A place in the picture leads to its attempts.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("svg a[data-n]");
  const form = document.querySelector("form.filter");
  if (!link || !form || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  form.only(link.dataset.n);
  arrive();
});

// The address may name an attempt in a fold.
function arrive() {
  const name = decodeURIComponent(location.hash.slice(1));
  if (!name) return;
  if (!document.getElementById(name)) document.querySelectorAll(".chunk").forEach(unfold);
  const target = document.getElementById(name);
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView({ block: "center" });
  target.querySelector("summary")?.focus({ preventScroll: true });
}
addEventListener("hashchange", arrive);
prepare(document);
arrive();
