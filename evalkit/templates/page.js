"use strict";
(() => {
  // A link to evidence must show it: open every closed <details> around its target.
  const reveal = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* a name that is not encoded */ }
    const target = name && document.getElementById(name);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node instanceof HTMLDetailsElement) node.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) setTimeout(reveal);
  });
  // Paper cannot be opened: print everything.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
  reveal();
})();
