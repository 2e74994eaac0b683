import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorDetailSchema, ErrorReason, type ErrorDetail } from "@gen/v1/error_pb.js";

/** An error of a call as the page shows it. */
export interface Fault {
  /** For a person. */
  text: string;
  reason: ErrorReason;
  /** What is wrong with which field, by the field's path in the request. */
  fields: { path: string; text: string }[];
  detail?: ErrorDetail;
}

/** Reads an error. */
export function faultOf(error: unknown): Fault {
  const e = ConnectError.from(error);
  const detail = e.findDetails(ErrorDetailSchema)[0];
  const fields = (detail?.violations ?? []).map((v) => ({ path: v.field, text: sentence(v.message) }));
  return { text: sentence(e.rawMessage || Code[e.code]), reason: detail?.reason ?? ErrorReason.UNSPECIFIED, fields, detail };
}

/** A message as a whole sentence, for one that another follows. */
export function whole(text: string): string {
  const said = sentence(text);
  return said === "" || /[.!?…]$/.test(said) ? said : `${said}.`;
}

/** A message as a sentence: it begins with a capital, unless it begins with a name. */
export function sentence(text: string): string {
  const [first = ""] = text.split(" ", 1);
  return /^[a-z]+$/.test(first) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

export function isSignedOut(error: unknown): boolean {
  return ConnectError.from(error).code === Code.Unauthenticated;
}

export function isWorthRepeating(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return code === Code.Unavailable || code === Code.DeadlineExceeded || code === Code.Aborted || code === Code.Unknown;
}

export function hasReason(error: unknown, reason: ErrorReason): boolean {
  return faultOf(error).reason === reason;
}
