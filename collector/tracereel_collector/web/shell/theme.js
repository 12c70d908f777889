// Theme: light, dark or that of the system; kept in local storage.

const NEXT = { auto: "light", light: "dark", dark: "auto" };
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };

export function setUpTheme(control) {
  let theme = localStorage.getItem("theme");
  if (!(theme in NEXT)) theme = "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    control.textContent = SIGNS[theme];
    control.setAttribute("aria-label", `Theme: ${theme}. Change to ${NEXT[theme]}`);
    control.title = `Theme: ${theme}`;
  };
  control.addEventListener("click", () => {
    theme = NEXT[theme];
    localStorage.setItem("theme", theme);
    apply();
  });
  apply();
}
