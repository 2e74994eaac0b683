import { useQuery } from "@connectrpc/connect-query";
import { CirclePause, Play } from "lucide-react";
import { useState } from "react";
import { PauseService, PauseState, type Pause } from "@gen/admin/v1/pause_service_pb.js";
import { faultOf } from "@/api/errors";
import { useMay, useOperator } from "@/api/session";
import { Badge } from "@/jobs/StateBadge";
import { actorWords, type Tone } from "@/jobs/words";
import { useConnectionNames } from "@/pauses/PauseBanner";
import { PauseDialog, ResumeDialog } from "@/pauses/PauseDialogs";
import { targetText } from "@/pauses/usePauses";
import { Button, Empty, Notice, Skeleton, When } from "@/ui/basics";
import { dateOf, plural } from "@/ui/format";

const states: Partial<Record<PauseState, { label: string; tone: Tone }>> = {
  [PauseState.ANNOUNCED]: { label: "Announced", tone: "wait" },
  [PauseState.IN_FORCE]: { label: "In force", tone: "unknown" },
  [PauseState.ENDED]: { label: "Ended", tone: "off" },
};

/** What is held back on purpose, with what it costs. */
export function Pauses() {
  const may = useMay();
  const operator = useOperator();
  const [ended, setEnded] = useState(false);
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<Pause>();
  const list = useQuery(PauseService.method.listPauses, { pageSize: 200, showEnded: ended, showPreview: true }, { refetchInterval: 15_000 });
  const pauses = list.data?.pauses ?? [];
  const names = useConnectionNames(pauses.length > 0);
  /** A pause of all projects is the operator's. */
  const mayEnd = (p: Pause) => may("connections:write") && p.state !== PauseState.ENDED && (operator || p.projectId !== "");
  return (
    <section className="space-y-4" aria-label="Pauses">
      <div className="flex flex-wrap items-center gap-3">
        <p className="min-w-0 flex-1 basis-64 text-dim">No job that a pause covers starts. Its start window goes on meanwhile, unless the pause holds windows.</p>
        <label className="flex items-center gap-2 text-dim">
          <input type="checkbox" className="accent-accent" checked={ended} onChange={(e) => setEnded(e.target.checked)} /> Ended ones, too
        </label>
        {may("connections:write") && (
          <Button look="primary" onClick={() => setMaking(true)}>
            <CirclePause className="size-4" aria-hidden /> Pause…
          </Button>
        )}
      </div>
      {list.error && <Notice kind="bad" title="The pauses could not be read">{faultOf(list.error).text}</Notice>}
      {list.isPending ? (
        <Skeleton rows={3} />
      ) : pauses.length === 0 && !list.error ? (
        <div className="card">
          <Empty icon={Play} title="Nothing is paused">
            Before maintenance, pause what it touches: a destination, a connection, or everything. A dry run shows what would be held back.
          </Empty>
        </div>
      ) : (
        <ul className="card divide-y">
          {pauses.map((p) => {
            const state = states[p.state] ?? { label: "Unknown", tone: "off" as Tone };
            const lost = (p.holdWindows ? 0n : (p.preview?.windowEndCount ?? 0n)) + (p.preview?.keyEndCount ?? 0n);
            return (
              <li key={p.pauseId} className="flex flex-wrap items-start gap-x-4 gap-y-2 p-4">
                <div className="min-w-0 flex-1 basis-64">
                  <p className="flex flex-wrap items-center gap-x-2.5 gap-y-1">
                    <span className="font-semibold break-all">{targetText(p.target, names)}</span>
                    <Badge tone={state.tone}>{state.label}</Badge>
                  </p>
                  {p.note && <p className="mt-0.5 break-words">{p.note}</p>}
                  <p className="mt-0.5 text-[13px] text-faint">
                    {[
                      p.beginTime && <span key="b">{p.state === PauseState.ANNOUNCED ? "begins" : "since"} <When at={dateOf(p.beginTime)} /></span>,
                      p.state !== PauseState.ENDED && <span key="e">{p.endTime ? <>ends <When at={dateOf(p.endTime)} /></> : "until somebody resumes it"}</span>,
                      p.holdWindows && <span key="h">windows that end in it begin again</span>,
                      p.endedTime && <span key="d">ended <When at={dateOf(p.endedTime)} /> by {actorWords(p.endedBy)}</span>,
                      <span key="w">by {actorWords(p.createdBy)}</span>,
                    ]
                      .filter(Boolean)
                      .flatMap((x, i) => (i > 0 ? [" · ", x] : [x]))}
                  </p>
                  {p.preview && (
                    <p className="mt-1.5 text-[13px] text-dim">
                      {p.state === PauseState.ANNOUNCED ? "Would hold" : "Holds"} {p.preview.waitingCount === 0n ? "no job that waits to start" : plural(p.preview.waitingCount, "job")} back
                      {p.preview.repeatCount > 0n && <>, and {plural(p.preview.repeatCount, "repeat")}</>}.
                      {p.preview.underWayCount > 0n && <> {plural(p.preview.underWayCount, "job")} on the way.</>}
                      {lost > 0n && <span className="font-medium text-unknown"> {plural(lost, "job")} {lost === 1n ? "runs" : "run"} out of time in it.</span>}
                    </p>
                  )}
                </div>
                {mayEnd(p) && (
                  <Button size="sm" onClick={() => setEnding(p)}>
                    <Play className="size-3.5" aria-hidden /> {p.state === PauseState.ANNOUNCED ? "Take back" : "Resume"}
                  </Button>
                )}
              </li>
            );
          })}
        </ul>
      )}
      {making && <PauseDialog onClose={() => setMaking(false)} />}
      {ending && <ResumeDialog pause={ending} name={targetText(ending.target, names)} onClose={() => setEnding(undefined)} />}
    </section>
  );
}
