import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ChartNoAxesCombined, type LucideIcon, Activity, CircleHelp, ShieldCheck, Timer } from "lucide-react";
import { useMemo, type ReactNode } from "react";
import { SettledBy, StatsBucket, StatsService, type StatsRow } from "@gen/admin/v1/stats_service_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { JobState } from "@gen/v1/job_pb.js";
import { faultOf } from "@/api/errors";
import { useMay } from "@/api/session";
import { stateWords } from "@/jobs/words";
import { Button, cx, Empty, Notice, PageHead, Segments, Skeleton, When } from "@/ui/basics";
import { count, dateOf, plural, secondsOf, span } from "@/ui/format";
import { useNow } from "@/ui/now";
import { Bars, Line } from "./charts";

// Rules of this file: figures are the server's (QueryStats, GetStats). The page adds them up, and computes no others.

export const ranges = {
  hour: { label: "Hour", seconds: 3_600, bucket: StatsBucket.MINUTE, step: 60 },
  day: { label: "Day", seconds: 86_400, bucket: StatsBucket.HOUR, step: 3_600 },
  week: { label: "Week", seconds: 7 * 86_400, bucket: StatsBucket.HOUR, step: 3_600 },
  month: { label: "Month", seconds: 30 * 86_400, bucket: StatsBucket.DAY, step: 86_400 },
} as const;

export type Range = keyof typeof ranges;

const ends = [JobState.SUCCEEDED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELED] as const;
const settledWords: Partial<Record<SettledBy, string>> = {
  [SettledBy.FOUND]: "Found on the platform",
  [SettledBy.REPEAT]: "Confirmed by a repeat under the same key",
  [SettledBy.LATE_ANSWER]: "Confirmed by a late answer",
  [SettledBy.ABSENCE]: "Proven absent",
  [SettledBy.PERSON]: "Decided by a person",
  [SettledBy.POLICY]: "Decided by the delivery",
};

export default function OverviewPage() {
  const search = useSearch({ from: "/overview" });
  const navigate = useNavigate({ from: "/overview" });
  const range = search.range ?? "day";
  const { seconds, bucket, step } = ranges[range];
  const may = useMay();
  const now = Math.floor(useNow() / 1000 / Math.min(step, 60)) * Math.min(step, 60);
  // The first bucket of whole steps, so that the axis does not move with every second.
  const start = Math.floor((now - seconds) / step) * step + step;
  const filter = search.connection ? { connectionKeys: [search.connection] } : {};
  const stats = useQuery(
    StatsService.method.queryStats,
    { bucket, startTime: { seconds: BigInt(start), nanos: 0 }, filter },
    { placeholderData: keepPreviousData, refetchInterval: 30_000 },
  );
  const present = useQuery(
    StatsService.method.getStats,
    { window: { seconds: BigInt(seconds), nanos: 0 }, ...(search.connection ? { connection: { case: "connectionKey", value: search.connection } } : {}) },
    { placeholderData: keepPreviousData, refetchInterval: 15_000 },
  );
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: may("connections:read") });
  const sums = useMemo(() => sum(stats.data?.rows ?? [], start, now, step), [stats.data, start, now, step]);
  const error = stats.error ?? present.error;
  const unresolved = present.data ? secondsOf(present.data.oldestUnresolvedAge ?? { seconds: 0n, nanos: 0 } as never) : 0;
  const waiting = present.data?.stateCounts.find((c) => c.state === JobState.SCHEDULED)?.count ?? 0n;

  return (
    <div className="mx-auto max-w-[84rem] space-y-5 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Overview" note={stats.data?.asOfTime && <>Counted up to <When at={dateOf(stats.data.asOfTime)} /></>}>
        {(connections.data?.connections.length ?? 0) > 1 && (
          <select
            aria-label="Connection"
            className="field h-9 w-auto max-w-52 py-0"
            value={search.connection ?? ""}
            onChange={(e) => void navigate({ search: (old) => ({ ...old, connection: e.target.value || undefined }), replace: true })}
          >
            <option value="">All connections</option>
            {connections.data!.connections.map((c) => (
              <option key={c.connectionId} value={c.idempotencyKey}>
                {c.displayName || c.idempotencyKey}
              </option>
            ))}
          </select>
        )}
        <Segments
          label="Range"
          value={range}
          onChange={(r) => void navigate({ search: (old) => ({ ...old, range: r === "day" ? undefined : r }), replace: true })}
          options={(Object.keys(ranges) as Range[]).map((r) => ({ value: r, label: ranges[r].label }))}
        />
      </PageHead>
      {error && <Notice kind="bad" title="The figures could not be read">{faultOf(error).text}</Notice>}
      {stats.isPending ? (
        <Skeleton rows={8} />
      ) : sums.total === 0 && waiting === 0n ? (
        <div className="card">
          <Empty
            icon={ChartNoAxesCombined}
            title="Nothing happened in this time"
            action={
              may("jobs:write") && (
                <Button look="primary" asChild>
                  <Link to="/new">Schedule a job</Link>
                </Button>
              )
            }
          >
            The first job shows here some seconds after it was stored: how late it started, how it ended, and what became of it if nobody knew.
          </Empty>
        </div>
      ) : (
        <>
          <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
            <Figure icon={Activity} label="Took effect" value={count(sums.ended.get(JobState.SUCCEEDED) ?? 0n)} note={share(sums)} tone="text-good" />
            <Figure
              icon={ShieldCheck}
              label="Unknown, then found"
              value={count(sums.recovered)}
              note="A retry without a look and without a key may have done each of them twice"
              tone="text-accent-text"
            />
            <Figure icon={Timer} label="Start lag, 99 of 100" value={present.data?.startLagP99 ? span(secondsOf(present.data.startLagP99)) : "–"} note={present.data?.startLagP50 ? `Half within ${span(secondsOf(present.data.startLagP50))}` : "No start yet"} />
            <Figure
              icon={CircleHelp}
              label="Oldest unknown"
              value={unresolved > 0 ? span(unresolved) : "None"}
              note={unresolved > 0 ? "Since its last attempt" : "Every outcome is known"}
              tone={unresolved > 0 ? "text-unknown" : undefined}
            />
          </div>
          <div className="grid gap-5 lg:grid-cols-2">
            <Card title="How jobs ended" note={plural(sums.endedAll, "job")}>
              <Bars
                data={sums.buckets}
                step={step}
                series={ends.map((s) => ({ key: `end${s}`, label: stateWords(s).label, color: { [JobState.SUCCEEDED]: "var(--good)", [JobState.FAILED]: "var(--bad)", [JobState.EXPIRED]: "var(--unknown)", [JobState.CANCELED]: "var(--edge)" }[s] }))}
              />
            </Card>
            <Card title="Stored and started" note={`${plural(sums.scheduled, "job")} stored`}>
              <Bars
                data={sums.buckets}
                step={step}
                stacked={false}
                series={[
                  { key: "scheduled", label: "Stored", color: "var(--wait)" },
                  { key: "started", label: "Started", color: "var(--run)" },
                ]}
              />
            </Card>
            <Card title="How late jobs started" note="After their scheduled time">
              <Line
                data={sums.buckets}
                step={step}
                series={[
                  { key: "lag99", label: "99 of 100", color: "var(--accent)" },
                  { key: "lag50", label: "Half", color: "var(--wait)" },
                ]}
              />
            </Card>
            <Card title="Unknown outcomes" note={`${count(sums.unknown)} in this time`}>
              {sums.unknown === 0n && sums.settled.size === 0 ? (
                <p className="flex h-52 items-center justify-center px-6 text-center text-dim">Every attempt got an answer that proves its effect, or its absence.</p>
              ) : (
                <Settled sums={sums} />
              )}
            </Card>
          </div>
        </>
      )}
    </div>
  );
}

export interface Bucket {
  at: number;
  [series: string]: number | null;
}

interface Sums {
  buckets: Bucket[];
  total: number;
  scheduled: bigint;
  started: bigint;
  ended: Map<JobState, bigint>;
  endedAll: bigint;
  unknown: bigint;
  recovered: bigint;
  settled: Map<SettledBy, bigint>;
}

/** Buckets without a gap, and their sums. */
function sum(rows: StatsRow[], start: number, now: number, step: number): Sums {
  const out: Sums = { buckets: [], total: 0, scheduled: 0n, started: 0n, ended: new Map(), endedAll: 0n, unknown: 0n, recovered: 0n, settled: new Map() };
  const at = new Map<number, StatsRow>();
  for (const row of rows) if (row.startTime) at.set(Number(row.startTime.seconds), row);
  for (let t = start; t <= now; t += step) {
    const row = at.get(t);
    const bucket: Bucket = { at: t * 1000, scheduled: 0, started: 0, lag50: null, lag99: null };
    for (const s of ends) bucket[`end${s}`] = 0;
    if (row) {
      bucket.scheduled = Number(row.scheduledCount);
      bucket.started = Number(row.startedCount);
      if (row.startLag?.p50) bucket.lag50 = secondsOf(row.startLag.p50);
      if (row.startLag?.p99) bucket.lag99 = secondsOf(row.startLag.p99);
      for (const e of row.endedCounts) {
        bucket[`end${e.state}`] = Number(e.count);
        out.ended.set(e.state, (out.ended.get(e.state) ?? 0n) + e.count);
        out.endedAll += e.count;
      }
      for (const s of row.settledCounts) out.settled.set(s.by, (out.settled.get(s.by) ?? 0n) + s.count);
      out.scheduled += row.scheduledCount;
      out.started += row.startedCount;
      out.unknown += row.unknownCount;
      out.recovered += row.recoveredCount;
    }
    out.buckets.push(bucket);
  }
  out.total = Number(out.scheduled + out.started + out.endedAll + out.unknown);
  return out;
}

function share(s: Sums): string {
  if (s.endedAll === 0n) return "No job has ended";
  const good = s.ended.get(JobState.SUCCEEDED) ?? 0n;
  const permille = Number((good * 1000n) / s.endedAll);
  return `${(permille / 10).toFixed(permille % 10 ? 1 : 0)} % of those that ended`;
}

function Figure({ icon: Icon, label, value, note, tone }: { icon: LucideIcon; label: string; value: string; note: string; tone?: string }) {
  return (
    <div className="card p-4">
      <p className="flex items-center gap-2 text-[13px] text-dim">
        <Icon className="size-4 text-faint" aria-hidden />
        {label}
      </p>
      <p className={cx("num mt-2 text-[22px] leading-none whitespace-nowrap md:text-[26px] font-semibold tracking-tight", tone)}>{value}</p>
      <p className="mt-2 text-[12.5px] text-faint">{note}</p>
    </div>
  );
}

function Card({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <section className="card min-w-0 p-4">
      <div className="mb-3 flex items-baseline justify-between gap-3">
        <h2 className="font-semibold">{title}</h2>
        {note && <span className="num text-[13px] text-faint">{note}</span>}
      </div>
      {children}
    </section>
  );
}

function Settled({ sums }: { sums: Sums }) {
  const rows = [...sums.settled].sort((a, b) => (a[1] < b[1] ? 1 : -1));
  const most = rows[0]?.[1] ?? 1n;
  return (
    <ul className="space-y-3 pt-1">
      {rows.map(([by, n]) => (
        <li key={by}>
          <div className="flex justify-between gap-3">
            <span>{settledWords[by] ?? SettledBy[by]}</span>
            <span className="num font-medium">{count(n)}</span>
          </div>
          <div className="mt-1 h-2 overflow-hidden rounded-full bg-sunken">
            <div className={cx("h-full rounded-full", by === SettledBy.PERSON || by === SettledBy.POLICY ? "bg-unknown" : "bg-good")} style={{ width: `${Math.max(2, Number((n * 100n) / most))}%` }} />
          </div>
        </li>
      ))}
      {rows.length === 0 && <li className="flex h-44 items-center justify-center text-dim">None of them is settled yet.</li>}
      <li className="border-t pt-3 text-[13px] text-dim">
        {plural(sums.unknown, "outcome")} became unknown, and Fireonce found the effect of {count(sums.recovered)}.
      </li>
    </ul>
  );
}

