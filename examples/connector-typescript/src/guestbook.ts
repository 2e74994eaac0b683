/**
 * The connector: posts become entries of the guest book. The book dedupes on the
 * effect key, so its class is KEYED: after a lost answer Fireonce calls again with
 * the same key, and gets the entry that is there.
 */
import { type MessageInitShape } from "@bufbuild/protobuf";
import { type Duration } from "@bufbuild/protobuf/wkt";
import { type ConnectRouter, type HandlerContext } from "@connectrpc/connect";

// In a project of your own: from where `buf generate` writes.
import {
  type Account,
  ConnectorService,
  type PrepareResponseSchema,
  type PublishRequest,
  type PublishResponseSchema,
  Refusal_Kind,
  type RefusalSchema,
} from "../../../gen/ts/fireonce/connector/v1/connector_service_pb.js";
import { EffectClass } from "../../../gen/ts/fireonce/v1/job_pb.js";
import { type Book, KeyReused, WriteUnknown } from "./book.js";

const MAX_TEXT = 500;

// The book keeps every key for ever; this is the longest window that there is.
const KEY_WINDOW = { seconds: BigInt(30 * 24 * 3600) };

const ACCOUNT = "the guest book";

/** Routes for a book that only these guests may write into; none: everybody. */
export function guestbook(book: Book, guests: string[]) {
  return (router: ConnectRouter): ConnectRouter =>
    router.service(ConnectorService, {
      describe: () => ({
        payloadKinds: ["social_post"],
        effectClasses: [EffectClass.KEYED],
        credentialKinds: ["bearer_token"],
        promise: "One entry in the guest book for each job: the book makes one entry of one key.",
      }),

      check: () => ({
        result: {
          case: "checked" as const,
          value: { traits: { effectClass: EffectClass.KEYED, keyWindow: KEY_WINDOW }, accountIdentity: ACCOUNT },
        },
      }),

      test: (request) => {
        const refused = refusal(request.account, guests);
        return refused
          ? { result: { case: "refused" as const, value: refused } }
          : { result: { case: "tested" as const, value: { accountIdentity: ACCOUNT, detail: "This guest may write." } } };
      },

      prepare: (request): MessageInitShape<typeof PrepareResponseSchema> => {
        const payload = request.content?.payload?.kind;
        const message =
          payload?.case !== "socialPost"
            ? "a guest book takes posts"
            : payload.value.media.length > 0
              ? "a guest book has no room for media"
              : [...payload.value.text].length > MAX_TEXT
                ? `the text has ${[...payload.value.text].length} characters, at most ${MAX_TEXT} have room`
                : "";
        return message
          ? { result: { case: "invalid", value: { field: "payload.social_post", message } } }
          : { result: { case: "prepared", value: {} } };
      },

      publish: (request, context) => publish(book, guests, request, context),

      // Methods of other classes answer UNIMPLEMENTED. They are never called.
    });
}

function refusal(account: Account | undefined, guests: string[]): MessageInitShape<typeof RefusalSchema> | undefined {
  const kind = account?.credential?.kind;
  if (guests.length === 0 || (kind?.case === "bearerToken" && guests.includes(kind.value.token))) return undefined;
  return { kind: Refusal_Kind.AUTH, message: "The guest book does not know this guest. Replace the connection's token." };
}

function milliseconds(d: Duration): number {
  return Number(d.seconds) * 1000 + d.nanos / 1e6;
}

/** One entry, or proof that there is none, or neither. */
function publish(
  book: Book,
  guests: string[],
  request: PublishRequest,
  context: HandlerContext,
): MessageInitShape<typeof PublishResponseSchema> {
  const arrived = performance.now();
  const refused = refusal(request.account, guests);
  if (refused) return { result: { case: "rejected", value: refused } };
  const payload = request.content?.payload?.kind;
  if (payload?.case !== "socialPost") {
    return { result: { case: "rejected", value: { kind: Refusal_Kind.PERMANENT, message: "a guest book takes posts" } } };
  }
  // The last thing before the write: is it still wanted?
  const within = request.sendWithin ? milliseconds(request.sendWithin) : 0;
  if (context.signal.aborted || performance.now() - arrived >= within) {
    return { result: { case: "notSent", value: { message: "the time to write it was over" } } };
  }
  try {
    const externalId = book.add({ key: request.effectKey, text: payload.value.text });
    return { result: { case: "published", value: { externalId } } };
  } catch (error) {
    // An error that is thrown would say the same: nobody knows. This says why.
    if (error instanceof WriteUnknown || error instanceof KeyReused) {
      return { result: { case: "unknown", value: { message: error.message } } };
    }
    throw error;
  }
}
