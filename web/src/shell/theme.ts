import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "fireonce.theme";
const listeners = new Set<() => void>();

function read(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

export function setTheme(theme: Theme) {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, theme);
  } catch {
    // Storage is blocked: it holds until the page is closed.
  }
  listeners.forEach((l) => l());
}

export function useTheme(): Theme {
  return useSyncExternalStore((then) => {
    listeners.add(then);
    return () => void listeners.delete(then);
  }, read);
}
