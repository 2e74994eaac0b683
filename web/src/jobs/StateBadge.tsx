import type { JobState } from "@gen/v1/job_pb.js";
import { cx } from "@/ui/basics";
import { stateWords, toneSoft, type Tone } from "./words";

export function StateBadge({ state, className }: { state: JobState; className?: string }) {
  const { label, tone, icon: Icon } = stateWords(state);
  return (
    <span className={cx("inline-flex h-6 items-center gap-1.5 rounded-full pr-2.5 pl-2 text-[12.5px] font-medium whitespace-nowrap", toneSoft[tone], className)}>
      <Icon className="size-3.5" aria-hidden />
      {label}
    </span>
  );
}

export function Badge({ tone, children }: { tone: Tone; children: React.ReactNode }) {
  return <span className={cx("inline-flex h-[22px] items-center rounded-full px-2 text-[12.5px] font-medium whitespace-nowrap", toneSoft[tone])}>{children}</span>;
}
