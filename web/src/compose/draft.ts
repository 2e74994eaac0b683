import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Job } from "@gen/v1/job_pb.js";
import { Delivery } from "@gen/v1/job_pb.js";
import type { ScheduleJobRequestSchema } from "@gen/v1/job_service_pb.js";
import { HttpMethod, type PayloadSchema } from "@gen/v1/payload_pb.js";
import { dateOf, ownZone } from "@/ui/format";
import { localInput, withSeconds } from "@/ui/zones";

// Rules of this file: a form is texts, as they were typed. The request is made of them in one place.

export type Kind = "webhook" | "httpRequest" | "email" | "socialPost" | "directMessage";

export const kindWords: Record<Kind, string> = {
  webhook: "Webhook",
  httpRequest: "HTTP request",
  email: "E-mail",
  socialPost: "Post",
  directMessage: "Message",
};

/** The kinds that this page can write, by the names that the server has for them. */
export const kindOf: Record<string, Kind> = {
  webhook: "webhook",
  http_request: "httpRequest",
  email: "email",
  social_post: "socialPost",
  direct_message: "directMessage",
};

export interface Draft {
  key: string;
  connection: string;
  kind: Kind | undefined;
  url: string;
  method: HttpMethod;
  contentType: string;
  body: string;
  headers: string;
  sender: string;
  to: string;
  cc: string;
  subject: string;
  text: string;
  html: string;
  post: string;
  media: string;
  recipient: string;
  when: "now" | "later";
  local: string;
  zone: string;
  delivery: Delivery;
  labels: string;
  windowHours: string;
}

export function emptyDraft(key: string): Draft {
  const soon = new Date(Date.now() + 3_600_000);
  soon.setMinutes(0, 0, 0);
  return {
    key, connection: "", kind: undefined,
    url: "", method: HttpMethod.POST, contentType: "", body: "", headers: "",
    sender: "", to: "", cc: "", subject: "", text: "", html: "",
    post: "", media: "", recipient: "",
    when: "now", local: localInput(soon, ownZone), zone: ownZone,
    delivery: Delivery.ONCE_OR_ASK, labels: "", windowHours: "",
  };
}

/** A form with what a job has, and a key of its own. */
export function draftLike(job: Job, key: string): Draft {
  const draft = emptyDraft(key);
  draft.connection = job.connectionKey;
  draft.delivery = job.delivery || Delivery.ONCE_OR_ASK;
  draft.labels = Object.entries(job.labels).map(([k, v]) => `${k}=${v}`).join("\n");
  draft.zone = job.timeZone || ownZone;
  if (job.scheduleTime && dateOf(job.scheduleTime).getTime() > Date.now()) {
    draft.when = "later";
    draft.local = localInput(dateOf(job.scheduleTime), draft.zone);
  }
  const kind = job.payload?.kind;
  switch (kind?.case) {
    case "webhook":
    case "httpRequest":
      draft.kind = kind.case;
      draft.url = kind.value.url;
      draft.contentType = kind.value.contentType;
      draft.headers = kind.value.headers.map((h) => `${h.name}: ${h.value}`).join("\n");
      if (kind.value.content.case === "bodyText") draft.body = kind.value.content.value;
      else if (kind.value.content.case === "body") draft.body = new TextDecoder().decode(kind.value.content.value);
      if (kind.case === "httpRequest") draft.method = kind.value.method || HttpMethod.POST;
      break;
    case "email":
      Object.assign(draft, { kind: "email", sender: kind.value.sender, to: kind.value.to.join(", "), cc: kind.value.cc.join(", "), subject: kind.value.subject, text: kind.value.textBody, html: kind.value.htmlBody });
      break;
    case "socialPost":
      Object.assign(draft, { kind: "socialPost", post: kind.value.text, media: kind.value.media.map((m) => m.url).join("\n") });
      break;
    case "directMessage":
      Object.assign(draft, { kind: "directMessage", recipient: kind.value.recipientId, post: kind.value.text });
      break;
  }
  return draft;
}

const lines = (text: string) => text.split("\n").map((l) => l.trim()).filter(Boolean);

/** Addresses, divided by commas outside of quotes, and by lines. */
export function addresses(text: string): string[] {
  return (text.match(/(?:"(?:\\.|[^"\\])*"|[^,;\n"])+/g) ?? []).map((a) => a.trim()).filter(Boolean);
}

function headersOf(text: string) {
  return lines(text).map((line) => {
    const at = line.indexOf(":");
    return at < 0 ? { name: line, value: "" } : { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
  });
}

export function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split(/[\n,]/).map((l) => l.trim()).filter(Boolean).map((l) => {
      const at = l.indexOf("=");
      return at < 0 ? [l, ""] : [l.slice(0, at).trim(), l.slice(at + 1).trim()];
    }),
  );
}

/** The payload of a form; undefined: it has no kind yet. */
export function payloadOf(d: Draft): MessageInitShape<typeof PayloadSchema> | undefined {
  const content = d.body === "" ? { case: undefined } : { case: "bodyText" as const, value: d.body };
  switch (d.kind) {
    case "webhook":
      return { kind: { case: "webhook", value: { url: d.url.trim(), contentType: d.contentType.trim(), headers: headersOf(d.headers), content } } };
    case "httpRequest":
      return { kind: { case: "httpRequest", value: { method: d.method, url: d.url.trim(), contentType: d.contentType.trim(), headers: headersOf(d.headers), content } } };
    case "email":
      return { kind: { case: "email", value: { sender: d.sender.trim(), to: addresses(d.to), cc: addresses(d.cc), subject: d.subject, textBody: d.text, htmlBody: d.html } } };
    case "socialPost":
      return { kind: { case: "socialPost", value: { text: d.post, media: lines(d.media).map((url) => ({ url })) } } };
    case "directMessage":
      return { kind: { case: "directMessage", value: { recipientId: d.recipient.trim(), text: d.post } } };
    default:
      return undefined;
  }
}

/** The request of a form. */
export function requestOf(d: Draft): MessageInitShape<typeof ScheduleJobRequestSchema> {
  const hours = Number(d.windowHours);
  return {
    idempotencyKey: d.key,
    connection: { case: "connectionKey", value: d.connection },
    payload: payloadOf(d),
    delivery: d.delivery,
    labels: labelsOf(d.labels),
    ...(d.when === "later" ? { localTime: { dateTime: withSeconds(d.local), timeZone: d.zone } } : {}),
    ...(hours > 0 ? { startWindow: { seconds: BigInt(Math.round(hours * 3600)), nanos: 0 } } : {}),
  };
}

/** What is still to be filled in before the server is asked. */
export function isReady(d: Draft): boolean {
  if (!d.connection) return false;
  switch (d.kind) {
    case "webhook":
    case "httpRequest":
      return d.url.trim() !== "";
    case "email":
      return d.sender.trim() !== "" && d.to.trim() !== "";
    case "socialPost":
      return d.post.trim() !== "" || d.media.trim() !== "";
    case "directMessage":
      return d.post.trim() !== "" && d.recipient.trim() !== "";
    default:
      return false;
  }
}

