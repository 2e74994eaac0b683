import { cx } from "@/ui/basics";

export function Logo({ large }: { large?: boolean }) {
  return (
    <span className="inline-flex items-center gap-2.5">
      <svg viewBox="0 0 32 32" className={large ? "size-10" : "size-7"} aria-hidden>
        <rect width="32" height="32" rx="8" className="fill-accent" />
        <path d="M16.6 5.5c.9 4.1 5.9 6.1 5.9 12.1a6.5 6.5 0 0 1-13 .2c0-2.6 1.3-4.3 2.6-5.8.2 1.6.9 2.6 1.9 3.1-.4-3.6.4-7.300 2.600-9.600Z" className="fill-accent-ink" />
        <circle cx="16" cy="19" r="2.600" className="fill-accent" />
      </svg>
      <span className={cx("font-semibold tracking-tight", large ? "text-2xl" : "text-[17px]")}>Fireonce</span>
    </span>
  );
}
