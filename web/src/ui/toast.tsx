import { AlertTriangle, Check, X } from "lucide-react";
import { useSyncExternalStore, type ReactNode } from "react";
import { cx } from "./basics";

interface Toast {
  id: number;
  kind: "good" | "bad";
  text: ReactNode;
}

let toasts: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function set(next: Toast[]) {
  toasts = next;
  listeners.forEach((l) => l());
}

/** Says what an action did, for some seconds. */
export function say(text: ReactNode, kind: Toast["kind"] = "good") {
  const id = ++last;
  set([...toasts.slice(-3), { id, kind, text }]);
  setTimeout(() => dismiss(id), kind === "bad" ? 12_000 : 5_000);
}

function dismiss(id: number) {
  set(toasts.filter((t) => t.id !== id));
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (then) => {
      listeners.add(then);
      return () => void listeners.delete(then);
    },
    () => toasts,
  );
  return (
    <div role="status" aria-live="polite" className="pointer-events-none fixed inset-x-3 bottom-20 z-50 flex flex-col items-center gap-2 md:inset-x-auto md:right-5 md:bottom-5 md:items-end">
      {shown.map((t) => {
        const Icon = t.kind === "bad" ? AlertTriangle : Check;
        return (
          <div key={t.id} className="lifted rise pointer-events-auto flex max-w-md items-start gap-3 py-3 pr-2 pl-4">
            <Icon className={cx("mt-0.5 size-4 shrink-0", t.kind === "bad" ? "text-bad" : "text-good")} aria-hidden />
            <div className="min-w-0 flex-1 break-words">{t.text}</div>
            <button type="button" aria-label="Dismiss" className="rounded p-1 text-faint hover:text-ink" onClick={() => dismiss(t.id)}>
              <X className="size-4" aria-hidden />
            </button>
          </div>
        );
      })}
    </div>
  );
}
