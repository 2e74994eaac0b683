import { useEffect, useRef, type ReactNode } from "react";
import { cx } from "@/ui/basics";

export function Card({ icon, title, note, action, linked, children }: { icon: ReactNode; title: ReactNode; note: ReactNode; action?: ReactNode; linked?: boolean; children?: ReactNode }) {
  const self = useRef<HTMLElement>(null);
  useEffect(() => {
    if (linked) self.current?.scrollIntoView({ block: "center" });
  }, [linked]);
  return (
    <article ref={self} className={cx("card overflow-hidden", linked && "ring-2 ring-accent")}>
      <div className="flex flex-wrap items-start gap-x-4 gap-y-3 p-5">
        {icon}
        <div className="min-w-0 flex-1 basis-56">
          <h2 className="text-[16px] leading-snug font-semibold break-words">{title}</h2>
          <div className="mt-1 space-y-1 break-words text-dim">{note}</div>
        </div>
        {action && <div className="flex flex-wrap gap-2">{action}</div>}
      </div>
      {children}
    </article>
  );
}
