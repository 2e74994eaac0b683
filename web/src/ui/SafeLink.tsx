import { ExternalLink } from "lucide-react";
import { cx } from "./basics";

/** Reports whether a URL opens a page of the web: a platform's answer may have any. */
export function isWeb(url: string): boolean {
  return /^https?:\/\//i.test(url) && URL.canParse(url);
}

/** A link out of the page, or its text if it is none. It takes neither the session nor the address along. */
export function SafeLink({ url, className, children }: { url: string; className?: string; children?: React.ReactNode }) {
  if (!isWeb(url)) return <span className={cx("break-all", className)}>{children ?? url}</span>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer" className={cx("inline-flex max-w-full items-center gap-1 text-accent-text underline decoration-accent-text/40 underline-offset-2 hover:decoration-accent-text", className)}>
      <span className="truncate">{children ?? url}</span>
      <ExternalLink className="size-3.5 shrink-0" aria-hidden />
    </a>
  );
}
