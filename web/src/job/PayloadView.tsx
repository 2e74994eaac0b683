import { FileText, Lock, Mail, MessageCircle, Paperclip, Webhook } from "lucide-react";
import { useState, type ReactNode } from "react";
import type { Payload, SocialPost, Email } from "@gen/v1/payload_pb.js";
import { HttpMethod } from "@gen/v1/payload_pb.js";
import type { MediaRef } from "@gen/v1/media_pb.js";
import { CopyButton, cx, Segments } from "@/ui/basics";
import { bytes as size } from "@/ui/format";
import { isWeb } from "@/ui/SafeLink";

// Rules of this file: content is hostile. It is shown as text, and nothing in it is loaded or run.

/** The payload as its receiver gets it. */
export function PayloadView({ payload, withheld, account }: { payload?: Payload; withheld?: boolean; account?: string }) {
  if (!payload) {
    return (
      <p className="flex items-center gap-2 p-4 text-dim">
        <Lock className="size-4" aria-hidden />
        {withheld ? "Your key lacks the scope payloads:read, so the content is not shown." : "There is no content."}
      </p>
    );
  }
  const { kind } = payload;
  switch (kind.case) {
    case "webhook":
      return (
        <RequestView
          method="POST"
          url={kind.value.url}
          headers={kind.value.headers}
          contentType={kind.value.contentType || "application/json"}
          body={bodyOf(kind.value.content)}
          note="Signed as Standard Webhooks has it: webhook-id, webhook-timestamp and webhook-signature are added when it is sent."
        />
      );
    case "httpRequest":
      return <RequestView method={HttpMethod[kind.value.method || HttpMethod.POST]!} url={kind.value.url} headers={kind.value.headers} contentType={kind.value.contentType || (kind.value.content.case ? "application/json" : "")} body={bodyOf(kind.value.content)} />;
    case "email":
      return <EmailView email={kind.value} />;
    case "socialPost":
      return <PostView post={kind.value} account={account} />;
    case "directMessage":
      return (
        <div className="space-y-2 p-4">
          <p className="flex items-center gap-2 text-dim">
            <MessageCircle className="size-4" aria-hidden /> To {kind.value.recipientId}
          </p>
          <p className="w-fit max-w-full rounded-2xl rounded-bl-sm bg-wait-soft px-4 py-2.5 break-words whitespace-pre-wrap text-ink">{kind.value.text}</p>
        </div>
      );
    case "custom":
      return (
        <div className="p-4">
          <p className="text-dim">
            {kind.value.schema} · {kind.value.contentType} · {size(kind.value.data.length)}
          </p>
          <Code text={textOf(kind.value.data)} />
        </div>
      );
    default:
      return <p className="p-4 text-dim">A kind of content that is newer than this page.</p>;
  }
}

function bodyOf(content: { case: "body"; value: Uint8Array } | { case: "bodyText"; value: string } | { case: "bodyJson"; value: unknown } | { case: undefined; value?: undefined }): string {
  if (content.case === "body") return textOf(content.value);
  if (content.case === "bodyText") return content.value;
  if (content.case === "bodyJson") return JSON.stringify(content.value);
  return "";
}

function textOf(data: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return `${size(data.length)}, no text`;
  }
}

/** JSON with lines. Numbers keep their digits: it is never parsed to numbers. */
export function prettyJSON(text: string): string {
  let out = "";
  let depth = 0;
  let quoted = false;
  const line = () => "\n" + "  ".repeat(Math.max(0, depth));
  const first = text.trimStart()[0];
  if (first !== "{" && first !== "[") return text;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quoted) {
      out += c;
      if (c === "\\") out += text[++i] ?? "";
      else if (c === '"') quoted = false;
    } else if (c === '"') {
      quoted = true;
      out += c;
    } else if (c === "{" || c === "[") {
      const close = c === "{" ? "}" : "]";
      const next = text.slice(i + 1).trimStart();
      if (next[0] === close) {
        out += c + close;
        i = text.indexOf(close, i + 1);
      } else {
        depth++;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      depth--;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}

export function Code({ text, className }: { text: string; className?: string }) {
  return (
    <div className={cx("group relative", className)}>
      <pre className="max-h-96 overflow-auto rounded-lg bg-sunken p-3 text-[13px] leading-relaxed break-words whitespace-pre-wrap" tabIndex={0}>
        {text}
      </pre>
      <CopyButton text={text} className="absolute top-1.5 right-1.5 bg-panel" />
    </div>
  );
}

function RequestView({ method, url, headers, contentType, body, note }: { method: string; url: string; headers: { name: string; value: string }[]; contentType: string; body: string; note?: string }) {
  return (
    <div className="space-y-3 p-4">
      <div className="flex min-w-0 items-center gap-2">
        <span className="flex shrink-0 items-center gap-1.5 rounded-md bg-run-soft px-2 py-0.5 text-[12px] font-semibold text-run">
          <Webhook className="size-3.5" aria-hidden />
          {method}
        </span>
        <span className="mono min-w-0 break-all">{url}</span>
        <CopyButton text={url} label="Copy the URL" />
      </div>
      {(headers.length > 0 || contentType) && (
        <dl className="mono grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 text-[13px]">
          {contentType && (
            <>
              <dt className="text-faint">content-type</dt>
              <dd className="break-all">{contentType}</dd>
            </>
          )}
          {headers.map((h, i) => (
            <div key={i} className="contents">
              <dt className="text-faint">{h.name.toLowerCase()}</dt>
              <dd className="break-all">{h.value}</dd>
            </div>
          ))}
        </dl>
      )}
      {body ? <Code text={contentType.includes("json") ? prettyJSON(body) : body} /> : <p className="text-faint">No body.</p>}
      {note && <p className="text-[13px] text-faint">{note}</p>}
    </div>
  );
}

function EmailView({ email }: { email: Email }) {
  const [part, setPart] = useState<"text" | "html">(email.textBody ? "text" : "html");
  const line = (label: string, value: string | string[]) => {
    const text = Array.isArray(value) ? value.join(", ") : value;
    if (!text) return null;
    return (
      <div className="flex gap-3">
        <dt className="w-16 shrink-0 text-faint">{label}</dt>
        <dd className="min-w-0 break-words">{text}</dd>
      </div>
    );
  };
  return (
    <div>
      <div className="border-b p-4">
        <h3 className="mb-2 flex items-center gap-2 text-[16px] font-semibold break-words">
          <Mail className="size-4 shrink-0 text-faint" aria-hidden />
          {email.subject || "(no subject)"}
        </h3>
        <dl className="space-y-0.5">
          {line("From", email.sender)}
          {line("To", email.to)}
          {line("Cc", email.cc)}
          {line("Bcc", email.bcc)}
          {line("Reply to", email.replyTo)}
          {email.headers.map((h) => line(h.name, h.value))}
        </dl>
      </div>
      <div className="space-y-3 p-4">
        {email.textBody && email.htmlBody && (
          <Segments
            label="Part"
            size="sm"
            value={part}
            onChange={setPart}
            options={[
              { value: "text", label: "Text" },
              { value: "html", label: "HTML source" },
            ]}
          />
        )}
        {part === "text" && email.textBody ? <p className="max-h-96 overflow-auto break-words whitespace-pre-wrap">{email.textBody}</p> : email.htmlBody ? <Code text={email.htmlBody} /> : <p className="text-faint">No text.</p>}
        <Files media={email.attachments} />
      </div>
    </div>
  );
}

function PostView({ post, account }: { post: SocialPost; account?: string }) {
  return (
    <div className="p-4">
      <div className="flex gap-3">
        <span className="flex size-10 shrink-0 items-center justify-center rounded-full bg-accent-soft text-[15px] font-semibold text-accent-text" aria-hidden>
          {(account ?? "?").replace(/^@/, "").charAt(0).toUpperCase()}
        </span>
        <div className="min-w-0 flex-1">
          <p className="truncate font-semibold">{account ?? "The account"}</p>
          {post.text ? <p className="mt-1 text-[15px] break-words whitespace-pre-wrap"><Marked text={post.text} /></p> : <p className="mt-1 text-faint">No text.</p>}
          {post.replyToId && <p className="mt-2 text-[13px] text-faint">In reply to {post.replyToId}</p>}
          <div className="mt-3">
            <Files media={post.media} />
          </div>
        </div>
      </div>
    </div>
  );
}

/** Links, mentions and tags in the colour that platforms give them. They lead nowhere here. */
function Marked({ text }: { text: string }): ReactNode {
  return text.split(/(https?:\/\/\S+|[@#][\p{L}\p{N}_]+)/u).map((part, i) => (i % 2 ? <span key={i} className="text-wait">{part}</span> : part));
}

function Files({ media }: { media: MediaRef[] }) {
  if (media.length === 0) return null;
  return (
    <ul className="space-y-1.5">
      {media.map((m, i) => (
        <li key={i} className="flex min-w-0 items-center gap-2 rounded-lg bg-sunken px-3 py-2 text-[13px]">
          {isWeb(m.url) && /\.(png|jpe?g|gif|webp|mp4)/i.test(m.url) ? <FileText className="size-4 shrink-0" aria-hidden /> : <Paperclip className="size-4 shrink-0" aria-hidden />}
          <span className="mono min-w-0 flex-1 truncate" title={m.url}>{m.url}</span>
          {m.altText && <span className="truncate text-faint">“{m.altText}”</span>}
        </li>
      ))}
    </ul>
  );
}
