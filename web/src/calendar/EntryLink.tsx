import { Link } from "@tanstack/react-router";
import { Repeat, TriangleAlert } from "lucide-react";
import { Phase } from "@gen/v1/job_pb.js";
import { useMay } from "@/api/session";
import { stateWords, toneSolid } from "@/jobs/words";
import { cx } from "@/ui/basics";
import type { Entry } from "./useEntries";

/** What a drop has: the job as the person saw it. */
export interface Dragged {
  jobId: string;
  etag: string;
  time: string;
}

export const dragType = "text/plain";

export function readDrag(text: string): Dragged | undefined {
  const [jobId, etag, time] = text.split("|");
  return jobId && etag && time ? { jobId, etag, time } : undefined;
}

function Conflict({ text }: { text?: string }) {
  if (!text) return null;
  return (
    <>
      <TriangleAlert className="size-3.5 shrink-0 text-unknown" aria-hidden />
      <span className="sr-only">Conflict: {text}</span>
    </>
  );
}

/** A job or a firing to come, in a day. */
export function EntryLink({ entry: e, boxed }: { entry: Entry; boxed?: boolean }) {
  const may = useMay();
  const look = cx("flex h-6 min-w-0 items-center gap-1.5 rounded-md px-1.5 text-[12.5px]", boxed ? "border bg-panel shadow-xs hover:border-edge" : "hover:bg-sunken");
  if (!e.job)
    return (
      <Link to="/schedules" search={{ open: e.schedule }} title={`${e.time} ${e.name}: ${e.conflict ?? "a firing to come, no job yet"}`} data-focus="inside" className={cx(look, "border border-dashed text-dim shadow-none")}>
        <Repeat className="size-3 shrink-0" aria-hidden />
        <span className="num shrink-0 text-faint">{e.time}</span>
        <span className="truncate">{e.name}</span>
        <Conflict text={e.conflict} />
      </Link>
    );
  const { tone, label } = stateWords(e.job.state);
  const movable = may("jobs:write") && e.job.phase === Phase.WAITING;
  const { jobId, etag } = e.job;
  return (
    <Link
      to="/jobs/$jobId"
      params={{ jobId }}
      draggable={movable}
      onDragStart={(d) => {
        d.dataTransfer.setData(dragType, `${jobId}|${etag}|${e.time}`);
        d.dataTransfer.effectAllowed = "move";
      }}
      title={`${e.time} ${e.name}, ${label.toLowerCase()}${e.conflict ? `. ${e.conflict}` : ""}${movable ? ". Drag it to another time." : ""}`}
      data-focus="inside"
      className={cx(look, movable && "cursor-grab")}
    >
      <span className={cx("size-2 shrink-0 rounded-full", toneSolid[tone])} aria-hidden />
      <span className="num shrink-0 text-faint">{e.time}</span>
      <span className="truncate">{e.name}</span>
      <Conflict text={e.conflict} />
      <span className="sr-only">{label}</span>
    </Link>
  );
}
