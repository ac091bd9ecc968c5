// The frame's behaviour: theme, keys, and pages that renew themselves. Everything works without it.
(() => {
  const root = document.documentElement;
  let stored = null;
  try { stored = localStorage.getItem("ottla-theme"); } catch { /* storage may be refused */ }
  if (stored) root.dataset.theme = stored;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const turn = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("ottla-theme", root.dataset.theme); } catch { /* it holds for this page */ }
  };
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", turn);
    const live = document.querySelector("[data-live]");
    if (!live) return;
    let waiting = false;
    const renew = async () => {
      if (waiting || document.hidden) return;
      waiting = true;
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (answer.ok) {
          const page = new DOMParser().parseFromString(await answer.text(), "text/html");
          const main = document.querySelector("main");
          const at = document.activeElement, inside = main.contains(at);
          const mark = inside ? at.id || at.getAttribute("href") : null;
          if (inside && at.matches("input, select")) return;
          main.replaceChildren(...page.querySelector("main").childNodes);
          if (mark) [...main.querySelectorAll("[id], a[href]")].find((one) => one.id === mark || one.getAttribute("href") === mark)?.focus();
        }
      } catch { /* the next event tries again */ } finally { waiting = false; }
    };
    const events = new EventSource(live.dataset.live);
    events.addEventListener("changed", renew);
    events.onopen = () => { live.classList.add("on"); live.textContent = "live"; };
    events.onerror = () => { live.classList.remove("on"); live.textContent = "not connected"; };
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const to = { "/": "#filter", "g": "main a" }[event.key];
    if (event.key === "t") turn();
    else if (event.key === "u") document.querySelector("a.up")?.click();
    else if (to) { event.preventDefault(); document.querySelector(to)?.focus(); }
  });
})();
