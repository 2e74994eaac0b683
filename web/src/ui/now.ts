import { useSyncExternalStore } from "react";

// One clock for the page, so that all relative times change together.

const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(then: () => void): () => void {
  listeners.add(then);
  timer ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((l) => l());
  }, 1_000);
  return () => {
    listeners.delete(then);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, every second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
