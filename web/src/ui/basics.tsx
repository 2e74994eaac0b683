import { Slot } from "radix-ui";
import { AlertTriangle, Check, Copy, Inbox, Info, LoaderCircle, type LucideIcon } from "lucide-react";
import { useEffect, useId, useState, type ComponentProps, type ReactNode } from "react";
import { copyText } from "./copy";
import { fullTime, ownZone, relative, shortTime } from "./format";
import { useNow } from "./now";

export const cx = (...names: (string | false | null | undefined)[]): string => names.filter(Boolean).join(" ");

const looks = {
  primary: "bg-accent text-accent-ink hover:brightness-110 border-transparent font-medium",
  normal: "bg-panel text-ink border-edge hover:bg-sunken",
  quiet: "bg-transparent text-dim border-transparent hover:bg-sunken hover:text-ink",
  danger: "bg-bad text-panel border-transparent hover:brightness-110 font-medium",
} as const;

const sizes = {
  sm: "h-7 px-2.5 text-[13px] gap-1.5 rounded-md",
  md: "h-9 px-3.5 gap-2 rounded-lg",
  lg: "h-11 px-5 gap-2 rounded-lg text-[15px]",
} as const;

/** A button, or with asChild what it contains in the look of one. */
export function Button({
  look = "normal",
  size = "md",
  busy,
  asChild,
  className,
  children,
  disabled,
  ...rest
}: ComponentProps<"button"> & { look?: keyof typeof looks; size?: keyof typeof sizes; busy?: boolean; asChild?: boolean }) {
  const names = cx(
    "inline-flex shrink-0 items-center justify-center border whitespace-nowrap select-none transition-[background-color,filter,opacity] duration-100 disabled:opacity-50 disabled:cursor-not-allowed",
    looks[look],
    sizes[size],
    className,
  );
  if (asChild)
    return (
      <Slot.Root className={names} {...rest}>
        {children}
      </Slot.Root>
    );
  return (
    <button type="button" className={names} disabled={disabled || busy} aria-busy={busy || undefined} {...rest}>
      {busy && <LoaderCircle className="turn size-4" aria-hidden />}
      {children}
    </button>
  );
}

/** A button that is one picture, with a name for those who do not see it. */
export function IconButton({ icon: Icon, label, className, ...rest }: ComponentProps<"button"> & { icon: LucideIcon; label: string }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={cx("inline-flex size-9 shrink-0 items-center justify-center rounded-lg text-dim hover:bg-sunken hover:text-ink disabled:opacity-50", className)}
      {...rest}
    >
      <Icon className="size-[18px]" aria-hidden />
    </button>
  );
}

/** A moment, relative and exact on hover. */
export function When({ at, zone, exact, className }: { at: Date; zone?: string; exact?: boolean; className?: string }) {
  const now = useNow();
  const full = `${fullTime(at, zone)} ${zone ?? ownZone}`;
  return (
    <time dateTime={at.toISOString()} title={full} className={cx("num whitespace-nowrap", className)}>
      {exact ? shortTime(at, now) : relative(at, now)}
    </time>
  );
}

export function CopyButton({ text, label = "Copy", className }: { text: string; label?: string; className?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const Icon = done ? Check : Copy;
  return (
    <button
      type="button"
      aria-label={done ? "Copied" : label}
      title={done ? "Copied" : label}
      className={cx("inline-flex size-6 shrink-0 items-center justify-center rounded text-faint hover:bg-sunken hover:text-ink", done && "text-good", className)}
      onClick={(e) => {
        e.preventDefault();
        e.stopPropagation();
        void copyText(text).then(setDone);
      }}
    >
      <Icon className="size-3.5" aria-hidden />
    </button>
  );
}

/** Text in one line, with a button that copies it whole. */
export function Copyable({ text, className, label }: { text: string; className?: string; label?: string }) {
  return (
    <span className="inline-flex min-w-0 max-w-full items-center gap-1 align-bottom">
      <span className={cx("mono truncate", className)} title={text}>
        {text}
      </span>
      <CopyButton text={text} label={label ?? `Copy ${text}`} />
    </span>
  );
}

const notices = {
  info: { icon: Info, names: "bg-wait-soft text-wait" },
  warn: { icon: AlertTriangle, names: "bg-unknown-soft text-unknown" },
  bad: { icon: AlertTriangle, names: "bg-bad-soft text-bad" },
  good: { icon: Check, names: "bg-good-soft text-good" },
} as const;

export function Notice({ kind, title, children, action }: { kind: keyof typeof notices; title?: ReactNode; children?: ReactNode; action?: ReactNode }) {
  const { icon: Icon, names } = notices[kind];
  return (
    <div role={kind === "bad" ? "alert" : "note"} className={cx("flex flex-wrap items-start gap-x-3 gap-y-2 rounded-xl px-4 py-3", names)}>
      <Icon className="mt-0.5 size-4 shrink-0" aria-hidden />
      <div className="min-w-0 flex-1 basis-48 break-words">
        {title && <p className="font-semibold">{title}</p>}
        {children && <div className={cx(title ? "opacity-95" : undefined)}>{children}</div>}
      </div>
      {action}
    </div>
  );
}

export function Empty({ icon: Icon = Inbox, title, children, action }: { icon?: LucideIcon; title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="flex flex-col items-center px-6 py-16 text-center">
      <span className="mb-4 flex size-14 items-center justify-center rounded-2xl bg-accent-soft text-accent-text">
        <Icon className="size-6" aria-hidden />
      </span>
      <h2 className="text-[17px] font-semibold">{title}</h2>
      {children && <div className="mt-1.5 max-w-md text-dim">{children}</div>}
      {action && <div className="mt-5 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

export function Skeleton({ rows = 6, className }: { rows?: number; className?: string }) {
  return (
    <div className={cx("space-y-3 p-4", className)} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} className="breathe h-5 rounded bg-sunken" style={{ width: `${90 - ((i * 37) % 45)}%`, animationDelay: `${i * 90}ms` }} />
      ))}
    </div>
  );
}

/** A label, a control, and below it what is wrong, or else a hint. */
export function Field({
  label,
  hint,
  error,
  optional,
  children,
  aside,
}: {
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
  optional?: boolean;
  aside?: ReactNode;
  children: (props: { id: string; "aria-invalid"?: true; "aria-describedby"?: string }) => ReactNode;
}) {
  const id = useId();
  const note = error ?? hint;
  return (
    <div className="min-w-0">
      <div className="mb-1.5 flex items-baseline justify-between gap-3">
        <label htmlFor={id} className="font-medium">
          {label}
          {optional && <span className="ml-1.5 font-normal text-faint">optional</span>}
        </label>
        {aside && <span className="num text-[13px] text-faint">{aside}</span>}
      </div>
      {children({ id, ...(error ? { "aria-invalid": true as const } : {}), ...(note ? { "aria-describedby": `${id}-note` } : {}) })}
      {note && (
        <p id={`${id}-note`} className={cx("mt-1.5 text-[13px]", error ? "text-bad" : "text-faint")} aria-live={error ? "polite" : undefined}>
          {note}
        </p>
      )}
    </div>
  );
}

export function PageHead({ title, children, note }: { title: ReactNode; note?: ReactNode; children?: ReactNode }) {
  return (
    <header className="flex flex-wrap items-center gap-x-4 gap-y-2">
      <div className="min-w-0 flex-1">
        <h1 className="text-[22px] leading-tight font-semibold tracking-tight">{title}</h1>
        {note && <p className="mt-0.5 text-dim">{note}</p>}
      </div>
      {children && <div className="flex flex-wrap items-center gap-2">{children}</div>}
    </header>
  );
}

/** A choice of a few, as buttons in a row. */
export function Segments<T extends string>({
  label,
  value,
  options,
  onChange,
  size = "md",
}: {
  label: string;
  value: T;
  options: { value: T; label: ReactNode }[];
  onChange: (value: T) => void;
  size?: "sm" | "md";
}) {
  return (
    <div role="radiogroup" aria-label={label} className="inline-flex max-w-full overflow-x-auto rounded-lg border border-line bg-sunken p-0.5">
      {options.map((o, i) => (
        <button
          key={o.value}
          type="button"
          role="radio"
          aria-checked={o.value === value}
          tabIndex={o.value === value ? 0 : -1}
          data-focus="inside"
          className={cx(
            "rounded-md whitespace-nowrap transition-colors",
            size === "sm" ? "h-6 px-2.5 text-[13px]" : "h-8 px-3",
            o.value === value ? "bg-panel font-medium text-ink shadow-sm ring-1 ring-line" : "text-dim hover:text-ink",
          )}
          onClick={() => onChange(o.value)}
          onKeyDown={(e) => {
            const step = e.key === "ArrowRight" || e.key === "ArrowDown" ? 1 : e.key === "ArrowLeft" || e.key === "ArrowUp" ? -1 : 0;
            if (!step) return;
            e.preventDefault();
            const next = (i + step + options.length) % options.length;
            onChange(options[next]!.value);
            (e.currentTarget.parentElement?.children[next] as HTMLElement | undefined)?.focus();
          }}
        >
          {o.label}
        </button>
      ))}
    </div>
  );
}
