import { Area, AreaChart, Bar, BarChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import type { ReactNode } from "react";
import { count, span } from "@/ui/format";
import type { Bucket } from "./OverviewPage";

// Rules of this file: a chart has a legend beside it and a table behind it, so that nothing is told by colour alone.

interface Series {
  key: string;
  label: string;
  color: string;
}

interface Props {
  data: Bucket[];
  series: Series[];
  /** Seconds of a bucket. */
  step: number;
}

const axis = { fontSize: 11.5, fill: "var(--faint)" };

function timeOf(step: number): (at: number) => string {
  const f =
    step >= 86_400
      ? new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })
      : new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  return (at) => f.format(at);
}

function rangeOf(at: number, step: number): string {
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
  const time = timeOf(step);
  return step >= 86_400 ? `${time(at)} (UTC)` : `${day.format(at)}, ${time(at)} – ${time(at + step * 1000)}`;
}

export function Bars({ data, series, step, stacked = true }: Props & { stacked?: boolean }) {
  return (
    <Framed data={data} series={series} step={step} show={count}>
      <BarChart accessibilityLayer={false} data={data} barCategoryGap={data.length > 40 ? 1 : "22%"} barGap={1} margin={{ top: 4, right: 0, bottom: 0, left: 0 }}>
        <CartesianGrid vertical={false} stroke="var(--line)" />
        <XAxis dataKey="at" tickFormatter={timeOf(step)} tick={axis} tickLine={false} axisLine={{ stroke: "var(--line)" }} minTickGap={28} />
        <YAxis allowDecimals={false} tick={axis} tickLine={false} axisLine={false} width={34} tickFormatter={short} />
        <Tooltip content={<Tip series={series} step={step} show={count} />} cursor={{ fill: "var(--sunken)", opacity: 0.7 }} isAnimationActive={false} />
        {series.map((s, i) => (
          <Bar key={s.key} dataKey={s.key} fill={s.color} {...(stacked ? { stackId: "all" } : {})} isAnimationActive={false} radius={stacked ? (i === 0 ? 2 : 2) : [3, 3, 0, 0]} maxBarSize={26} />
        ))}
      </BarChart>
    </Framed>
  );
}

export function Line({ data, series, step }: Props) {
  return (
    <Framed data={data} series={series} step={step} show={span}>
      <AreaChart accessibilityLayer={false} data={data} margin={{ top: 4, right: 0, bottom: 0, left: 0 }}>
        <CartesianGrid vertical={false} stroke="var(--line)" />
        <XAxis dataKey="at" tickFormatter={timeOf(step)} tick={axis} tickLine={false} axisLine={{ stroke: "var(--line)" }} minTickGap={28} />
        <YAxis tick={axis} tickLine={false} axisLine={false} width={60} tickFormatter={span} />
        <Tooltip content={<Tip series={series} step={step} show={span} />} cursor={{ stroke: "var(--edge)" }} isAnimationActive={false} />
        {series.map((s) => (
          <Area key={s.key} dataKey={s.key} type="monotone" stroke={s.color} strokeWidth={2} fill={s.color} fillOpacity={0.1} connectNulls={false} isAnimationActive={false} dot={{ r: 2.5, strokeWidth: 0, fill: s.color }} activeDot={{ r: 4, strokeWidth: 0 }} />
        ))}
      </AreaChart>
    </Framed>
  );
}

const short = (n: number) => (n >= 1e6 ? `${n / 1e6} M` : n >= 1e3 ? `${n / 1e3} k` : String(n));

function Framed({ data, series, step, show, children }: Props & { show: (n: number) => string; children: ReactNode }) {
  return (
    <figure>
      <figcaption className="mb-2 flex flex-wrap gap-x-4 gap-y-1 text-[13px] text-dim">
        {series.map((s) => (
          <span key={s.key} className="inline-flex items-center gap-1.5">
            <span className="size-2.5 rounded-[3px]" style={{ background: s.color }} aria-hidden />
            {s.label}
          </span>
        ))}
      </figcaption>
      <div className="h-52" aria-hidden>
        <ResponsiveContainer width="100%" height="100%" minWidth={0}>
          {children}
        </ResponsiveContainer>
      </div>
      <table className="sr-only">
        <thead>
          <tr>
            <th>Time</th>
            {series.map((s) => (
              <th key={s.key}>{s.label}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data
            .filter((b) => series.some((s) => b[s.key]))
            .map((b) => (
              <tr key={b.at}>
                <th>{rangeOf(b.at, step)}</th>
                {series.map((s) => (
                  <td key={s.key}>{b[s.key] == null ? "none" : show(b[s.key]!)}</td>
                ))}
              </tr>
            ))}
        </tbody>
      </table>
    </figure>
  );
}

function Tip({ active, payload, label, series, step, show }: { active?: boolean; payload?: { dataKey?: unknown; value?: unknown }[]; label?: unknown; series: Series[]; step: number; show: (n: number) => string }) {
  if (!active || !payload?.length) return null;
  return (
    <div className="lifted rounded-lg px-3 py-2 text-[13px]">
      <p className="mb-1 text-faint">{rangeOf(Number(label), step)}</p>
      {series.map((s) => {
        const value = payload.find((p) => p.dataKey === s.key)?.value;
        return (
          <p key={s.key} className="flex items-center gap-2">
            <span className="size-2.5 rounded-[3px]" style={{ background: s.color }} aria-hidden />
            {s.label}
            <span className="num ml-auto pl-4 font-medium">{typeof value === "number" ? show(value) : "–"}</span>
          </p>
        );
      })}
    </div>
  );
}
