import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Dialog } from "radix-ui";
import { Moon, Plus, Search, Sun, SunMoon } from "lucide-react";
import { useDeferredValue, useEffect, useRef, useState, type ReactNode } from "react";
import { JobService } from "@gen/v1/job_service_pb.js";
import { useMay } from "@/api/session";
import { filterOf, stateName } from "@/jobs/search";
import { StateBadge } from "@/jobs/StateBadge";
import { allStates, stateWords } from "@/jobs/words";
import { nav } from "./nav";
import { setTheme } from "./theme";

const item = "flex min-h-10 cursor-pointer items-center gap-3 rounded-lg px-3 data-[selected=true]:bg-accent-soft data-[selected=true]:text-accent-text";
const group = "[&_[cmdk-group-heading]]:px-3 [&_[cmdk-group-heading]]:pt-3 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-[12px] [&_[cmdk-group-heading]]:font-medium [&_[cmdk-group-heading]]:text-faint";

/** Goes anywhere by a few letters. What is typed is looked for among the keys of jobs, too. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const may = useMay();
  const [text, setText] = useState("");
  const q = useDeferredValue(text.trim());
  const found = useQuery(
    JobService.method.listJobs,
    { filter: filterOf({ q }), pageSize: 6 },
    { enabled: q.length >= 2 && /^[!-~]+$/.test(q) && may("jobs:read"), placeholderData: keepPreviousData },
  );
  // What is chosen may go when jobs come, and then the list chooses nothing: Enter would do nothing.
  const [chosen, setChosen] = useState("");
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const entries = list.current?.querySelectorAll("[cmdk-item]") ?? [];
      if (![...entries].some((e) => e.getAttribute("aria-selected") === "true")) setChosen(entries[0]?.getAttribute("data-value") ?? "");
    });
    return () => cancelAnimationFrame(frame);
  }, [text, found.data, chosen]);
  const go = (then: () => unknown) => () => {
    onClose();
    void then();
  };
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <div className="fade fixed inset-0 z-40 bg-black/45" aria-hidden />
        <Dialog.Content
          aria-describedby={undefined}
          className="lifted rise fixed inset-x-2 top-2 z-50 flex max-h-[80dvh] flex-col overflow-hidden outline-none md:inset-x-auto md:top-[14vh] md:left-1/2 md:w-[36rem] md:-translate-x-1/2"
        >
          <Dialog.Title className="sr-only">Go to</Dialog.Title>
          <Command label="Go to" loop value={chosen} onValueChange={setChosen} className="flex min-h-0 flex-col">
            <div className="flex items-center gap-3 border-b px-4">
              <Search className="size-4 text-faint" aria-hidden />
              <Command.Input value={text} onValueChange={setText} placeholder="A page, an action, or the key of a job" className="h-12 w-full bg-transparent text-[15px] outline-none placeholder:text-faint" />
            </div>
            <Command.List ref={list} className="max-h-[60vh] overflow-y-auto p-2">
              <Command.Empty className="px-3 py-8 text-center text-dim">Nothing fits.</Command.Empty>
              {q.length >= 2 && (found.data?.jobs.length ?? 0) > 0 && (
                <Command.Group heading="Jobs" className={group}>
                  {found.data!.jobs.map((job) => (
                    <Command.Item key={job.jobId} value={`${job.idempotencyKey} ${job.jobId}`} keywords={[text]} className={item} onSelect={go(() => navigate({ to: "/jobs/$jobId", params: { jobId: job.jobId } }))}>
                      <span className="mono min-w-0 flex-1 truncate">{job.idempotencyKey}</span>
                      <StateBadge state={job.state} />
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              <Command.Group heading="Pages" className={group}>
                {nav
                  .filter((n) => !n.scope || may(n.scope))
                  .map((n) => (
                    <Entry key={n.to} icon={<n.icon className="size-4" aria-hidden />} keys={["g", n.key]} onSelect={go(() => navigate({ to: n.to }))}>
                      {n.label}
                    </Entry>
                  ))}
              </Command.Group>
              <Command.Group heading="Actions" className={group}>
                {may("jobs:write") && (
                  <Entry icon={<Plus className="size-4" aria-hidden />} keys={["n"]} onSelect={go(() => navigate({ to: "/new" }))}>
                    New job
                  </Entry>
                )}
                <Entry icon={<Sun className="size-4" aria-hidden />} onSelect={go(() => setTheme("light"))}>
                  Light theme
                </Entry>
                <Entry icon={<Moon className="size-4" aria-hidden />} onSelect={go(() => setTheme("dark"))}>
                  Dark theme
                </Entry>
                <Entry icon={<SunMoon className="size-4" aria-hidden />} onSelect={go(() => setTheme("system"))}>
                  Theme of the system
                </Entry>
              </Command.Group>
              {may("jobs:read") && (
                <Command.Group heading="Jobs by state" className={group}>
                  {allStates.map((s) => {
                    const { label, icon: Icon } = stateWords(s);
                    return (
                      <Entry key={s} icon={<Icon className="size-4" aria-hidden />} onSelect={go(() => navigate({ to: "/jobs", search: { state: stateName(s) } }))}>
                        {`Jobs: ${label}`}
                      </Entry>
                    );
                  })}
                </Command.Group>
              )}
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Entry({ icon, keys, children, onSelect }: { icon: ReactNode; keys?: string[]; children: string; onSelect: () => void }) {
  return (
    <Command.Item className={item} onSelect={onSelect} value={children}>
      {icon}
      <span className="flex-1">{children}</span>
      {keys?.map((k) => (
        <kbd key={k} className="rounded border bg-panel px-1.5 text-[11px] text-faint">
          {k}
        </kbd>
      ))}
    </Command.Item>
  );
}

