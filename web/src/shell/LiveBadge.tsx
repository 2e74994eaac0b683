import { useFeedStatus } from "@/live/store";
import { cx } from "@/ui/basics";
import { clockTime, span } from "@/ui/format";
import { useNow } from "@/ui/now";

/** Says whether what the page shows is live. */
export function LiveBadge({ compact }: { compact?: boolean }) {
  const status = useFeedStatus();
  const { dot, text, title } = words(status);
  return (
    <span role="status" title={title} className={cx("inline-flex h-7 items-center gap-2 rounded-full px-2.5 text-[13px] whitespace-nowrap", status.kind === "broken" ? "bg-bad-soft text-bad" : "text-dim")}>
      <span className={cx("size-2 rounded-full", dot)} aria-hidden />
      <span className={cx(compact && status.kind === "live" && "sr-only")}>{text}</span>
    </span>
  );
}

function words(status: ReturnType<typeof useFeedStatus>): { dot: string; text: string; title: string } {
  switch (status.kind) {
    case "live":
      return { dot: "bg-good breathe", text: "Live", title: `Live since ${clockTime(new Date(status.since))}` };
    case "connecting":
      return { dot: "bg-off breathe", text: "Connecting", title: "The stream of events is being opened" };
    case "broken":
      return { dot: "bg-bad", text: "Not live", title: status.why };
    default:
      return { dot: "bg-off", text: "Not live", title: status.kind === "refused" ? status.why : "Nothing is followed" };
  }
}

/** A line across the page while it is not live: what is shown may be old. */
export function NotLive() {
  const status = useFeedStatus();
  const now = useNow();
  if (status.kind !== "broken" || now - status.since < 2_000) return null;
  const wait = Math.max(0, Math.ceil((status.nextTry - now) / 1000));
  return (
    <div role="alert" className="flex flex-wrap items-center justify-center gap-x-3 bg-bad px-4 py-1.5 text-center text-[13px] font-medium text-panel">
      Not live for {span((now - status.since) / 1000)}: what you see may be old. {status.why} {wait > 0 ? `Next try in ${wait} s.` : "Trying now."}
    </div>
  );
}
