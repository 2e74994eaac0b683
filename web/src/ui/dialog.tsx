import { Dialog as Radix } from "radix-ui";
import { X } from "lucide-react";
import type { ReactNode } from "react";

// Rules of this file: Radix' own overlay locks the page's scrolling by a style element, which the page's policy
// forbids. The page itself does not scroll, so an overlay of ours is enough.

/** A window over the page that takes the focus; a sheet from below on a phone. */
export function Dialog({
  open,
  onOpenChange,
  title,
  note,
  children,
  footer,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  note?: ReactNode;
  children?: ReactNode;
  footer?: ReactNode;
}) {
  return (
    <Radix.Root open={open} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <div className="fade fixed inset-0 z-40 bg-black/45" aria-hidden />
        <Radix.Content
          className="lifted rise fixed inset-x-0 bottom-0 z-50 flex max-h-[92dvh] flex-col rounded-b-none outline-none md:inset-x-auto md:top-[7vh] md:bottom-auto md:left-1/2 md:max-h-[86vh] md:w-[min(34rem,calc(100vw-2rem))] md:-translate-x-1/2 md:rounded-b-xl"
          {...(note ? {} : { "aria-describedby": undefined })}
        >
          <div className="flex items-start gap-3 px-5 pt-5">
            <div className="min-w-0 flex-1">
              <Radix.Title className="text-[17px] font-semibold">{title}</Radix.Title>
              {note && <Radix.Description className="mt-1 text-dim">{note}</Radix.Description>}
            </div>
            <Radix.Close aria-label="Close" className="-mr-1.5 rounded-lg p-1.5 text-faint hover:bg-sunken hover:text-ink">
              <X className="size-5" aria-hidden />
            </Radix.Close>
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto px-5 py-4">{children}</div>
          {footer && <div className="flex flex-wrap justify-end gap-2 border-t px-5 py-3.5">{footer}</div>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
