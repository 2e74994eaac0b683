import { useQuery } from "@connectrpc/connect-query";
import { Link, useNavigate, useRouterState } from "@tanstack/react-router";
import { Command, Menu, Plus, Search, TriangleAlert } from "lucide-react";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { StatsService } from "@gen/admin/v1/stats_service_pb.js";
import { JobState } from "@gen/v1/job_pb.js";
import { useMay, useWho } from "@/api/session";
import { HeldBanner } from "@/pauses/PauseBanner";
import { IconButton } from "@/ui/basics";
import { count } from "@/ui/format";
import { Dialog } from "@/ui/dialog";
import { LiveBadge, NotLive } from "./LiveBadge";
import { Logo } from "./Logo";
import { nav, type NavItem } from "./nav";
import Palette from "./Palette"; // not loaded later: what is typed right after the shortcut must not be lost
import { isInsecure } from "./PlainHTTP";

/** The frame of every page: where one can go, whether it is live, and what stops the service. */
export function Frame({ children }: { children: ReactNode }) {
  const [palette, setPalette] = useState(false);
  const [more, setMore] = useState(false);
  const may = useMay();
  useShortcuts(() => setPalette(true));
  const path = useRouterState({ select: (s) => s.location.pathname });
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    setMore(false);
    main.current?.scrollTo(0, 0);
  }, [path]);
  const items = nav.filter((n) => !n.scope || may(n.scope));
  const onPhone = items.filter((n) => ["/", "/jobs", "/overview"].includes(n.to));

  return (
    <div className="flex h-full flex-col">
      <a href="#main" className="sr-only z-50 rounded-lg bg-accent px-4 py-2 text-accent-ink focus:not-sr-only focus:fixed focus:top-2 focus:left-2" onClick={(e) => (e.preventDefault(), main.current?.focus())}>
        Skip to the page
      </a>
      <NotLive />
      <Stopped />
      <HeldBanner />
      <div className="flex min-h-0 flex-1">
        <aside className="flex w-[13.5rem] shrink-0 flex-col border-r bg-panel px-3 py-4 max-md:hidden">
          <Link to="/" className="mb-5 rounded-lg px-2 py-1" aria-label="Fireonce, to what needs you">
            <Logo />
          </Link>
          <button
            type="button"
            onClick={() => setPalette(true)}
            className="mb-4 flex h-9 items-center gap-2 rounded-lg border bg-page px-2.5 text-left text-faint hover:border-edge hover:text-dim"
          >
            <Command className="size-4" aria-hidden />
            <span className="flex-1">Go to…</span>
            <kbd className="rounded border bg-panel px-1.5 text-[11px]">{isMac ? "⌘K" : "Ctrl K"}</kbd>
          </button>
          <nav aria-label="Pages" className="flex flex-1 flex-col gap-0.5">
            {items.map((n) => (
              <NavLink key={n.to} item={n} />
            ))}
          </nav>
          <div className="flex items-center justify-between gap-2 border-t pt-3">
            <LiveBadge />
            <Project />
          </div>
        </aside>
        <div className="flex min-w-0 flex-1 flex-col">
          <header className="flex items-center gap-1 border-b bg-panel px-3 py-1.5 md:hidden">
            <Link to="/" aria-label="Fireonce, to what needs you" className="flex flex-1 items-center px-1">
              <Logo />
            </Link>
            <LiveBadge compact />
            <IconButton icon={Search} label="Go to…" onClick={() => setPalette(true)} />
          </header>
          <main ref={main} id="main" tabIndex={-1} className="min-h-0 flex-1 overflow-y-auto outline-none">
            {children}
          </main>
          <nav aria-label="Pages" className="flex border-t bg-panel pb-[env(safe-area-inset-bottom)] md:hidden">
            {onPhone.map((n) => (
              <PhoneLink key={n.to} item={n} />
            ))}
            {may("jobs:write") && (
              <Link to="/new" className="flex flex-1 flex-col items-center gap-0.5 py-1.5 text-[11px] font-medium text-accent-text">
                <Plus className="size-5" aria-hidden />
                New
              </Link>
            )}
            <button type="button" onClick={() => setMore(true)} className="flex flex-1 flex-col items-center gap-0.5 py-1.5 text-[11px] text-dim" aria-haspopup="dialog">
              <Menu className="size-5" aria-hidden />
              More
            </button>
          </nav>
        </div>
      </div>
      <Dialog open={more} onOpenChange={setMore} title="Pages">
        <nav aria-label="All pages" className="-mx-2 flex flex-col gap-1 pb-2">
          {items.map((n) => (
            <NavLink key={n.to} item={n} />
          ))}
        </nav>
      </Dialog>
      {palette && <Palette onClose={() => setPalette(false)} />}
    </div>
  );
}

export const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

function NavLink({ item: { to, label, icon: Icon } }: { item: NavItem }) {
  return (
    <Link
      to={to}
      activeOptions={{ exact: to === "/", includeSearch: false }}
      className="flex h-9 items-center gap-3 rounded-lg px-2.5 transition-colors"
      activeProps={{ className: "bg-accent-soft font-medium text-accent-text", "aria-current": "page" }}
      inactiveProps={{ className: "text-dim hover:bg-sunken hover:text-ink" }}
    >
      <Icon className="size-[18px]" aria-hidden />
      <span className="flex-1">{label}</span>
      {to === "/" && <Waiting />}
    </Link>
  );
}

function PhoneLink({ item: { to, label, icon: Icon } }: { item: NavItem }) {
  return (
    <Link
      to={to}
      activeOptions={{ exact: to === "/", includeSearch: false }}
      className="relative flex flex-1 flex-col items-center gap-0.5 py-1.5 text-[11px]"
      activeProps={{ className: "font-medium text-accent-text", "aria-current": "page" }}
      inactiveProps={{ className: "text-dim" }}
    >
      <Icon className="size-5" aria-hidden />
      {label}
      {to === "/" && (
        <span className="absolute top-1 left-1/2 ml-2">
          <Waiting />
        </span>
      )}
    </Link>
  );
}

/** How many jobs wait for a person. */
function Waiting() {
  const stats = useQuery(StatsService.method.getStats, {}, { refetchInterval: 30_000 });
  const n = stats.data?.stateCounts.find((c) => c.state === JobState.NEEDS_RESOLUTION)?.count ?? 0n;
  if (n === 0n) return null;
  return (
    <span className="num rounded-full bg-unknown px-1.5 text-[11px] leading-[18px] font-semibold text-panel">
      {count(n)}
      <span className="sr-only"> jobs wait for a decision</span>
    </span>
  );
}

function Project() {
  const who = useWho();
  return (
    <span className="min-w-0 truncate text-[13px] text-faint" title={`Project ${who.project ?? ""}, as ${who.actor ?? ""}`}>
      {who.project}
    </span>
  );
}

/** What stops the service as a whole, above every page. */
function Stopped() {
  const may = useMay();
  const stats = useQuery(StatsService.method.getStats, {}, { enabled: may("jobs:read"), refetchInterval: 30_000 });
  const lines: string[] = [];
  if (stats.data?.quarantineReason) lines.push(`Quarantined: ${stats.data.quarantineReason} Nothing is sent until an operator runs fireonce recover.`);
  if (stats.data?.clockDoubt) lines.push(`The time is in doubt: ${stats.data.clockDoubt.message}`);
  if (isInsecure()) lines.push("This page is not encrypted: anyone on the network between can read it.");
  return lines.map((line) => (
    <div key={line} role="note" className="flex items-center justify-center gap-2 bg-unknown-soft px-4 py-1.5 text-[13px] font-medium text-unknown">
      <TriangleAlert className="size-4 shrink-0" aria-hidden />
      {line}
    </div>
  ));
}

/** ⌘K opens the palette, g and a letter a page, n a new job, / the search. */
function useShortcuts(openPalette: () => void) {
  const navigate = useNavigate();
  const may = useMay();
  const open = useRef(openPalette);
  open.current = openPalette;
  useEffect(() => {
    let after = 0;
    const key = (e: KeyboardEvent) => {
      if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === "k") {
        e.preventDefault();
        open.current();
        return;
      }
      const at = e.target as HTMLElement;
      if (e.metaKey || e.ctrlKey || e.altKey || at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || document.querySelector("[role=dialog]")) return;
      if (after && Date.now() - after < 1200) {
        after = 0;
        const to = nav.find((n) => n.key === e.key && (!n.scope || may(n.scope)))?.to;
        if (to) {
          e.preventDefault();
          void navigate({ to });
        }
      } else if (e.key === "g") after = Date.now();
      else if (e.key === "n" && may("jobs:write")) {
        e.preventDefault();
        void navigate({ to: "/new" });
      } else if (e.key === "/") {
        const box = document.querySelector<HTMLElement>("[data-search]");
        e.preventDefault();
        if (box) box.focus();
        else open.current();
      } else if (e.key === "?") open.current();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [navigate, may]);
}

