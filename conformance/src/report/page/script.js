(() => {
  "use strict";
  const find = (selector) => document.querySelector(selector);
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const search = find("#search"), group = find("#group"), shown = find("#shown");
  const sections = all(".groups section"), clauses = all(".clause"), chips = all(".chips button");
  let verdict = "";

  document.documentElement.classList.add("scripted");
  find(".filters").addEventListener("submit", (event) => event.preventDefault());

  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const section of sections) {
      let any = false;
      for (const clause of all(".clause", section)) {
        const fits = (!group.value || section.dataset.group === group.value)
          && (!verdict || clause.dataset.verdict === verdict)
          && words.every((word) => clause.dataset.text.includes(word));
        clause.hidden = !fits;
        any = any || fits;
        count += fits ? 1 : 0;
      }
      section.hidden = !any;
    }
    shown.textContent = `${count} of ${clauses.length} clauses`;
    find("#none").hidden = count > 0;
  }

  function choose(next) {
    verdict = next;
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.verdict === verdict));
    apply();
  }

  function reset() {
    search.value = "";
    group.value = "";
    choose("");
  }

  // A link to a clause shows it, whatever the filters say.
  function follow() {
    const clause = clauses.find((one) => `#${one.id}` === location.hash);
    if (!clause) return;
    if (clause.hidden) reset();
    clause.open = true;
    clause.scrollIntoView({ block: "start" });
    clause.querySelector("summary").focus({ preventScroll: true });
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    let done = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      done = true;
    } catch {
      // Without the right to the clipboard the text is selected, so that a key copies it.
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    }
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  }

  search.addEventListener("input", apply);
  group.addEventListener("change", apply);
  for (const chip of chips) chip.addEventListener("click", () => choose(chip.dataset.verdict));
  for (const button of all(".copy")) button.addEventListener("click", () => copy(button));
  find("#open-all").addEventListener("click", (event) => {
    const open = event.target.dataset.open !== "yes";
    event.target.dataset.open = open ? "yes" : "no";
    event.target.textContent = open ? "Close all shown" : "Open all shown";
    for (const clause of clauses) if (!clause.hidden) clause.open = open;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      reset();
    }
  });
  addEventListener("hashchange", follow);
  // Browsers keep what was typed when a page is loaded anew.
  apply();
  follow();
})();
