/** Copies a text; reports whether that worked. Over plain HTTP browsers have no clipboard, but the old command. */
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed: the other way.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.readOnly = true;
  area.className = "fixed opacity-0";
  const host = document.querySelector("[role=dialog]") ?? document.body; // a dialog keeps the focus
  const focused = document.activeElement as HTMLElement | null;
  host.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}
