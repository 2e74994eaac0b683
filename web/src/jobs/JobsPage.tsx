import { keepPreviousData } from "@tanstack/react-query";
import { useQuery } from "@connectrpc/connect-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownUp, CalendarClock, ChevronDown, CirclePause, CirclePlay, Plus, RotateCcw, Search, ShieldCheck, SlidersHorizontal, Trash2, X, type LucideIcon } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { lazy, memo, Suspense, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { StatsService } from "@gen/admin/v1/stats_service_pb.js";
import { Phase, type Job } from "@gen/v1/job_pb.js";
import { faultOf } from "@/api/errors";
import { useMay, type Scope } from "@/api/session";
import { Button, cx, Empty, IconButton, Notice, Skeleton, When } from "@/ui/basics";
import { count, dateOf, plural } from "@/ui/format";
import type { BulkKind } from "./BulkDialog";
import { FilterPanel } from "./FilterPanel";
import { filterOf, list, phaseName, selects, toggle, type JobSearch } from "./search";
import { StateBadge } from "./StateBadge";
import { useJobList } from "./useJobList";
import { jobNote } from "./note";
import { phases, toneSolid } from "./words";

const BulkDialog = lazy(() => import("./BulkDialog"));

/** As many ids as a filter may have. */
const mostChosen = 100;
const none: ReadonlySet<string> = new Set();

const sorts: { value: NonNullable<JobSearch["sort"]>; label: string }[] = [
  { value: "latest", label: "Latest first" },
  { value: "soonest", label: "Soonest first" },
  { value: "created", label: "Newest first" },
];

export default function JobsPage() {
  const search = useSearch({ from: "/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const change = (next: Partial<JobSearch>) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  const [paused, setPaused] = useState(false);
  const [panel, setPanel] = useState(false);
  const jobs = useJobList(useDeferredValue(search), paused);
  const may = useMay();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(none);
  const [bulk, setBulk] = useState<BulkKind>();
  const text = JSON.stringify(search);
  useEffect(() => setChosen(none), [text]); // what is not seen any more is not chosen
  const changes = may("jobs:write") || may("jobs:resolve");
  const choose = useCallback((id: string) => {
    setChosen((old) => {
      const next = new Set(old);
      if (!next.delete(id) && next.size < mostChosen) next.add(id);
      return next;
    });
  }, []);

  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="space-y-3 px-4 pt-5 pb-3 md:px-8 md:pt-7">
        <div className="flex items-center gap-3">
          <h1 className="flex-1 text-[22px] leading-tight font-semibold tracking-tight">Jobs</h1>
          <Button size="sm" look="quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
            {paused ? <CirclePlay className="size-4" aria-hidden /> : <CirclePause className="size-4" aria-hidden />}
            {paused ? (jobs.held > 0 ? `Resume, ${plural(jobs.held, "change")} waiting` : "Resume") : "Pause"}
          </Button>
          {changes && jobs.rows.length > 0 && <BulkMenu chosen={chosen.size} selects={selects(search)} onPick={setBulk} />}
          {may("jobs:write") && (
            <Button look="primary" asChild className="max-md:hidden">
              <Link to="/new">
                <Plus className="size-4" aria-hidden />
                New job
              </Link>
            </Button>
          )}
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <SearchBox value={search.q} onChange={(q) => change({ q })} />
          <Button onClick={() => setPanel(true)} aria-haspopup="dialog">
            <SlidersHorizontal className="size-4" aria-hidden />
            <span className="max-sm:sr-only">Filters</span>
          </Button>
          <label className="relative inline-flex items-center">
            <span className="sr-only">Order</span>
            <ArrowDownUp className="pointer-events-none absolute left-3 size-4 text-dim" aria-hidden />
            <select
              className="field h-9 appearance-none py-0 pr-3 pl-9 max-sm:w-9 max-sm:pr-0 max-sm:text-transparent"
              value={search.sort ?? "latest"}
              onChange={(e) => change({ sort: e.target.value === "latest" ? undefined : (e.target.value as JobSearch["sort"]) })}
            >
              {sorts.map((s) => (
                <option key={s.value} value={s.value}>
                  {s.label}
                </option>
              ))}
            </select>
          </label>
          <PhaseTabs search={search} onChange={change} />
        </div>
        <Chips search={search} onChange={change} />
        {chosen.size > 0 && (
          <p className="flex items-center gap-3 text-[13px] text-dim" role="status">
            <span>
              <b className="num text-ink">{chosen.size}</b> chosen{chosen.size === mostChosen && ", which is the most: filter for more"}
            </span>
            <button type="button" className="text-accent-text hover:underline" onClick={() => setChosen(none)}>
              Choose none
            </button>
          </p>
        )}
      </div>
      {jobs.error && (
        <div className="px-4 pb-3 md:px-8">
          <Notice kind="bad" title="The jobs could not be read" action={<Button size="sm" onClick={jobs.refresh}>Try again</Button>}>
            {faultOf(jobs.error).text}
          </Notice>
        </div>
      )}
      {jobs.isPending ? (
        <Skeleton rows={10} className="px-4 md:px-8" />
      ) : jobs.rows.length === 0 && !jobs.hasMore && !jobs.error ? (
        selects(search) ? (
          <Empty icon={Search} title="No job fits" action={<Button onClick={() => void navigate({ search: {} })}>Show all jobs</Button>}>
            Nothing matches this view now. It is live: a job that fits appears here.
          </Empty>
        ) : (
          <Empty
            title="No jobs yet"
            action={
              may("jobs:write") && (
                <Button look="primary" asChild>
                  <Link to="/new">Schedule the first one</Link>
                </Button>
              )
            }
          >
            A job is one side effect at one time: a webhook, an e-mail, a post. It takes effect once, or Fireonce says plainly that it does not know.
          </Empty>
        )
      ) : (
        <JobTable jobs={jobs} chosen={changes ? chosen : undefined} onChoose={choose} />
      )}
      {bulk && (
        <Suspense fallback={null}>
          <BulkDialog
            kind={bulk}
            filter={chosen.size > 0 ? { jobIds: [...chosen] } : filterOf(search)}
            what={chosen.size > 0 ? `Of the ${plural(chosen.size, "job")} that you chose.` : "Of all jobs that the filters select, also those that the list has not loaded."}
            onClose={() => (setBulk(undefined), setChosen(none))}
          />
        </Suspense>
      )}
      <FilterPanel open={panel} onOpenChange={setPanel} search={search} onChange={change} />
    </div>
  );
}

/** What can be done with many jobs at once: those that are chosen, or all that the filters select. */
function BulkMenu({ chosen, selects: filtered, onPick }: { chosen: number; selects: boolean; onPick: (kind: BulkKind) => void }) {
  const may = useMay();
  const items: { kind: BulkKind; label: string; icon: LucideIcon; scope: Scope }[] = [
    { kind: "move", label: "Move", icon: CalendarClock, scope: "jobs:write" },
    { kind: "retry", label: "Try again", icon: RotateCcw, scope: "jobs:write" },
    { kind: "resolve", label: "Decide", icon: ShieldCheck, scope: "jobs:resolve" },
    { kind: "cancel", label: "Cancel", icon: Trash2, scope: "jobs:write" },
  ];
  const ready = chosen > 0 || filtered;
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <Button size="md" look={chosen > 0 ? "primary" : "normal"}>
          {chosen > 0 ? `Change ${chosen}` : "Change all"}
          <ChevronDown className="size-3.5" aria-hidden />
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align="end" sideOffset={6} className="lifted rise z-50 min-w-56 p-1.5">
          {!ready && <p className="max-w-56 px-2.5 py-2 text-[13px] text-dim">Filter, or choose rows, first: nothing changes every job of the project.</p>}
          {items
            .filter((i) => may(i.scope))
            .map((i) => (
              <DropdownMenu.Item
                key={i.kind}
                disabled={!ready}
                className="flex h-9 cursor-pointer items-center gap-2.5 rounded-lg px-2.5 outline-none data-disabled:cursor-not-allowed data-disabled:opacity-50 data-highlighted:bg-accent-soft data-highlighted:text-accent-text"
                onSelect={() => onPick(i.kind)}
              >
                <i.icon className="size-4" aria-hidden />
                {i.label}…
              </DropdownMenu.Item>
            ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function SearchBox({ value, onChange }: { value?: string; onChange: (q: string | undefined) => void }) {
  const [text, setText] = useState(value ?? "");
  const sent = useRef(value ?? "");
  useEffect(() => {
    if ((value ?? "") !== sent.current) setText(value ?? ""); // changed elsewhere, as by "back"
    sent.current = value ?? "";
  }, [value]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      onChange(text || undefined);
    }, 250);
    return () => clearTimeout(timer);
  }, [text, onChange]);
  return (
    <div className="relative min-w-0 flex-1 basis-60 md:max-w-md">
      <Search className="pointer-events-none absolute top-2.5 left-3 size-4 text-faint" aria-hidden />
      <input
        type="search"
        aria-label="Search by key or id"
        placeholder="Key begins with…, *contains, or an id"
        className="field h-9 pl-9 [&::-webkit-search-cancel-button]:hidden"
        value={text}
        data-search
        onChange={(e) => setText(e.target.value)}
        maxLength={255}
      />
      {text && <IconButton icon={X} label="Clear the search" className="absolute top-0.5 right-0.5 size-8" onClick={() => setText("")} />}
    </div>
  );
}

function PhaseTabs({ search, onChange }: { search: JobSearch; onChange: (next: Partial<JobSearch>) => void }) {
  const { phase: _, state: __, ...rest } = search;
  const counted = useQuery(StatsService.method.countJobs, { filter: filterOf(rest) }, { placeholderData: keepPreviousData });
  const chosen = list(search.phase);
  const of = (p: Phase) => counted.data?.phaseCounts.find((c) => c.phase === p);
  return (
    <div role="group" aria-label="Phase" className="-mx-1 flex max-w-full items-center gap-1 overflow-x-auto px-1 py-0.5">
      {phases.map(({ phase, label, tone }) => {
        const on = chosen.includes(phaseName(phase));
        const n = of(phase);
        return (
          <button
            key={phase}
            type="button"
            aria-pressed={on}
            onClick={() => onChange({ phase: toggle(search.phase, phaseName(phase)), state: undefined })}
            className={cx(
              "inline-flex h-8 items-center gap-2 rounded-full border px-3 whitespace-nowrap transition-colors",
              on ? "border-ink bg-ink text-page" : "border-line bg-panel text-dim hover:text-ink",
            )}
          >
            <span className={cx("size-2 rounded-full", toneSolid[tone])} aria-hidden />
            {label}
            <span className={cx("num", on ? "opacity-80" : "text-faint")}>{n ? count(n.count) + (n.capped ? "+" : "") : "–"}</span>
          </button>
        );
      })}
    </div>
  );
}

/** What the filter has set, each with a button that removes it. */
function Chips({ search, onChange }: { search: JobSearch; onChange: (next: Partial<JobSearch>) => void }) {
  const chips: { text: string; without: Partial<JobSearch> }[] = [];
  for (const [key, label] of [
    ["state", "State"],
    ["connection", "Connection"],
    ["error", "Error"],
    ["label", "Label"],
  ] as const)
    for (const value of list(search[key])) chips.push({ text: `${label}: ${value}`, without: { [key]: toggle(search[key], value) } });
  if (search.destination) chips.push({ text: `At ${search.destination}`, without: { destination: undefined } });
  if (search.schedule) chips.push({ text: `Schedule: ${search.schedule}`, without: { schedule: undefined } });
  if (search.recipient) chips.push({ text: `To: ${search.recipient}`, without: { recipient: undefined } });
  if (search.from) chips.push({ text: `From ${search.from.replace("T", " ")}`, without: { from: undefined } });
  if (search.to) chips.push({ text: `Until ${search.to.replace("T", " ")}`, without: { to: undefined } });
  if (chips.length === 0) return null;
  return (
    <ul className="flex flex-wrap gap-1.5" aria-label="Filters that are set">
      {chips.map((c) => (
        <li key={c.text}>
          <button
            type="button"
            onClick={() => onChange(c.without)}
            aria-label={`Remove ${c.text}`}
            className="inline-flex h-7 max-w-72 items-center gap-1.5 rounded-full bg-accent-soft pr-2 pl-3 text-[13px] text-accent-text hover:brightness-95"
          >
            <span className="truncate">{c.text}</span>
            <X className="size-3.5 shrink-0" aria-hidden />
          </button>
        </li>
      ))}
      <li>
        <button type="button" className="h-7 px-2 text-[13px] text-dim hover:text-ink" onClick={() => onChange({ state: undefined, connection: undefined, destination: undefined, error: undefined, label: undefined, schedule: undefined, recipient: undefined, from: undefined, to: undefined })}>
          Clear
        </button>
      </li>
    </ul>
  );
}

const columns = "md:grid md:grid-cols-[10.5rem_minmax(0,2.2fr)_minmax(0,1.2fr)_8.5rem_minmax(0,2.4fr)] md:items-center md:gap-4";

function JobTable({ jobs, chosen, onChoose }: { jobs: ReturnType<typeof useJobList>; chosen?: ReadonlySet<string>; onChoose: (id: string) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const wide = useWide();
  const rowHeight = wide ? 46 : 74;
  const { rows } = jobs;
  const rowsBox = useVirtualizer({
    count: rows.length + (jobs.hasMore ? 1 : 0),
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    getItemKey: (i) => rows[i]?.jobId ?? "more",
    overscan: 12,
  });
  useEffect(() => rowsBox.measure(), [rowHeight, rowsBox]);
  const items = rowsBox.getVirtualItems();
  const end = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (end >= rows.length - 40 && jobs.hasMore && !jobs.isLoadingMore) jobs.more();
  }, [end, rows.length, jobs]);

  const keys = (e: KeyboardEvent) => {
    const step = e.key === "ArrowDown" || e.key === "j" ? 1 : e.key === "ArrowUp" || e.key === "k" ? -1 : 0;
    const at = Number((e.target as HTMLElement).closest<HTMLElement>("[data-row]")?.dataset.row ?? -1);
    if (!step || e.metaKey || e.ctrlKey || e.altKey) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(rows.length - 1, at + step));
    rowsBox.scrollToIndex(next);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-row="${next}"] a`)?.focus({ preventScroll: true }));
  };

  return (
    <div role="table" aria-label="Jobs" aria-rowcount={jobs.hasMore ? -1 : rows.length + 1} className="mx-0 flex min-h-0 flex-1 flex-col border-t bg-panel md:mx-8 md:mb-6 md:overflow-hidden md:rounded-xl md:border">
      <div role="rowgroup" className="max-md:sr-only">
        <div role="row" aria-rowindex={1} className={cx("h-9 border-b bg-sunken px-4 text-[12.5px] font-medium text-faint", columns)}>
          <span role="columnheader" className={cx(chosen && "pl-[1.625rem]")}>State</span>
          <span role="columnheader">Key</span>
          <span role="columnheader">Connection</span>
          <span role="columnheader">Scheduled</span>
          <span role="columnheader">What is going on</span>
        </div>
      </div>
      <div ref={scroller} role="rowgroup" className="min-h-0 flex-1 overflow-y-auto overscroll-contain" onKeyDown={keys}>
        <div className="relative" style={{ height: rowsBox.getTotalSize() }}>
          {items.map((item) => {
            const job = rows[item.index];
            return (
              <div key={item.key} className="absolute inset-x-0 top-0" style={{ height: rowHeight, transform: `translateY(${item.start}px)` }} data-row={item.index} role="row" aria-rowindex={item.index + 2}>
                {job ? <JobRow job={job} chosen={chosen?.has(job.jobId)} onChoose={onChoose} /> : <span role="cell" className="flex h-full items-center px-4 text-faint">Loading more…</span>}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** chosen is undefined where nothing can be chosen. */
const JobRow = memo(function JobRow({ job, chosen, onChoose }: { job: Job; chosen?: boolean; onChoose: (id: string) => void }) {
  const first = useRef(job.sequence);
  const changed = first.current !== job.sequence;
  const note = useMemo(() => jobNote(job), [job]);
  const at = job.scheduleTime && dateOf(job.scheduleTime);
  const text = note.text || labelsText(job);
  return (
    <div
      key={changed ? String(job.sequence) : "first"}
      className={cx("group relative h-full border-b px-4 hover:bg-sunken max-md:flex max-md:flex-col max-md:justify-center max-md:gap-1", columns, changed && "flash", chosen && "bg-accent-soft")}
    >
      <span role="cell" className="flex items-center gap-3 max-md:hidden">
        {chosen !== undefined && <input type="checkbox" aria-label={`Choose ${job.idempotencyKey}`} className="relative z-10 size-3.5 accent-accent" checked={chosen} onChange={() => onChoose(job.jobId)} />}
        <StateBadge state={job.state} />
      </span>
      <span role="cell" className="flex min-w-0 items-center gap-2">
        <Link to="/jobs/$jobId" params={{ jobId: job.jobId }} data-focus="inside" className="mono min-w-0 truncate font-medium after:absolute after:inset-0" title={job.idempotencyKey}>
          {job.idempotencyKey}
        </Link>
        <span className="ml-auto shrink-0 md:hidden">
          <StateBadge state={job.state} />
        </span>
      </span>
      <span role="cell" className="truncate text-dim max-md:hidden" title={job.connectionKey}>
        {job.connectionKey || <span className="text-faint">erased</span>}
      </span>
      <span role="cell" className="text-dim max-md:hidden">{at && <When at={at} exact />}</span>
      <span role="cell" className="flex min-w-0 items-center gap-2 text-dim">
        <span className="min-w-0 flex-1 truncate" title={text}>
          <span className="md:hidden">{[job.connectionKey, text].filter(Boolean).join(" · ")}</span>
          <span className="max-md:hidden">{text}</span>
        </span>
        {note.at && <When at={note.at} className="shrink-0 text-[13px] text-faint" />}
        {!note.at && at && <When at={at} className="shrink-0 text-[13px] text-faint md:hidden" />}
      </span>
    </div>
  );
});

const labelsText = (job: Job) => Object.entries(job.labels).map(([k, v]) => `${k}=${v}`).join("  ");

function useWide(): boolean {
  const [wide, setWide] = useState(() => window.matchMedia("(min-width: 48rem)").matches);
  useEffect(() => {
    const media = window.matchMedia("(min-width: 48rem)");
    const then = () => setWide(media.matches);
    media.addEventListener("change", then);
    return () => media.removeEventListener("change", then);
  }, []);
  return wide;
}

