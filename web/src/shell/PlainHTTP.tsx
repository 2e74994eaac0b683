import { Notice } from "@/ui/basics";

/** Reports whether the page crosses a network without TLS. */
export function isInsecure(): boolean {
  return !window.isSecureContext;
}

export function PlainHTTP() {
  return (
    <Notice kind="warn" title="This page is not encrypted">
      Anyone on the network between can read what you see and take over your session. Serve it over TLS.
    </Notice>
  );
}
