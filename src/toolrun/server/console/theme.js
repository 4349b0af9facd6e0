// @ts-check
// Before the first paint, so that nobody who chose dark sees a light page. Without a choice, the system decides.
try {
  const chosen = localStorage.getItem("toolrun.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // The browser keeps nothing for pages: the system decides.
}
