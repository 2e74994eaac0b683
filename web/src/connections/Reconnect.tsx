import { useMutation, useQuery } from "@connectrpc/connect-query";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { useState, type FormEvent } from "react";
import type { Connection } from "@gen/connections/v1/connection_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import type { CredentialSchema } from "@gen/connections/v1/credential_pb.js";
import { ConnectionStateCause as Cause } from "@gen/v1/job_pb.js";
import { faultOf, whole } from "@/api/errors";
import { queries } from "@/api/transport";
import { Button, Field, Notice, Segments, Skeleton } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { say } from "@/ui/toast";

// Rules of this file: a secret goes from the field to the server, and is in no state that outlives the window.

type Kind = "bearer_token" | "basic" | "webhook_secrets" | "api_key_header" | "login";

const kindWords: Record<Kind, string> = {
  login: "Log in",
  bearer_token: "Token",
  basic: "User and password",
  webhook_secrets: "Signing secret",
  api_key_header: "API key in a header",
};

/** What a person does about a hold. */
export function remedy(cause: Cause): string {
  switch (cause) {
    case Cause.CREDENTIAL_MISSING:
      return "It has no credential yet.";
    case Cause.CREDENTIAL_EXPIRED:
      return "The credential has expired, and could not be renewed.";
    case Cause.LOGIN_ENDED:
      return "The login was revoked, or is not renewed any more. Log in again.";
    case Cause.RENEWAL_LOST:
      return "An answer was lost while the login was renewed. Log in again.";
    case Cause.PERMISSION_MISSING:
      return "The credential lacks a right. Widen the rights at the platform, then replace the credential.";
    case Cause.ACCOUNT_BARRED:
      return "The platform has suspended, locked or closed the account. Its owner settles that there; then replace the credential, even by the same one.";
    case Cause.ACCOUNT_MISMATCH:
      return "The credential belongs to another account. Supply one of the right account.";
    default:
      return "The platform refused the credential: it may be revoked or mistyped.";
  }
}

/** Reports whether a new credential lifts a hold. */
export function isCredential(cause: Cause): boolean {
  return cause >= 100 && cause < 200;
}

/** Replaces the credential of a connection, and so lifts its hold. */
export function Reconnect({ connectionKey, onClose }: { connectionKey: string; onClose: () => void }) {
  const by = { connection: { case: "idempotencyKey" as const, value: connectionKey } };
  const read = useQuery(ConnectionService.method.getConnection, by);
  const connectors = useQuery(ConnectionService.method.listConnectors, {});
  const c = read.data?.connection;
  const connector = connectors.data?.connectors.find((x) => x.name === c?.connector);
  const fault = read.error ?? connectors.error;
  if (c && connector) return <Form connection={c} kinds={connector.credentialKinds} onClose={onClose} />;
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="Reconnect">
      {fault ? <Notice kind="bad">{faultOf(fault).text}</Notice> : <Skeleton rows={3} className="p-0" />}
    </Dialog>
  );
}

function Form({ connection: c, kinds: accepted, onClose }: { connection: Connection; kinds: string[]; onClose: () => void }) {
  const kinds = (Object.keys(kindWords) as Kind[]).filter((k) => accepted.includes(k === "login" ? "oauth2" : k));
  const [kind, setKind] = useState<Kind | undefined>(kinds[0]);
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  const rotate = useMutation(ConnectionService.method.rotateCredential);
  const login = useMutation(ConnectionService.method.startOAuth);
  const error = rotate.error ?? login.error;
  const fault = error ? faultOf(error) : undefined;
  const at = (path: string) => fault?.fields.find((f) => f.path.includes(path))?.text;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (kind === "login") {
      login.mutate({ app: user, target: { case: "connectionId", value: c.connectionId } }, { onSuccess: (res) => window.location.assign(res.authorizationUrl) });
      return;
    }
    const credential: MessageInitShape<typeof CredentialSchema> = {
      kind:
        kind === "basic"
          ? { case: "basic", value: { username: user, password: secret } }
          : kind === "webhook_secrets"
            ? { case: "webhookSecrets", value: { secrets: secret.split(/[\s,]+/).filter(Boolean) } }
            : kind === "api_key_header"
              ? { case: "apiKeyHeader", value: { name: user, value: secret } }
              : { case: "bearerToken", value: { token: secret } },
    };
    rotate.mutate(
      { connection: { case: "connectionId", value: c.connectionId }, credential, etag: c.etag },
      {
        onSuccess: () => {
          say("Reconnected. Its jobs go on.");
          void queries.invalidateQueries();
          onClose();
        },
      },
    );
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Reconnect ${c.displayName || c.idempotencyKey}`}
      note={isCredential(c.stateCause) ? remedy(c.stateCause) : "The credential is replaced, and the old one erased. Waiting jobs go on with the new one."}
      footer={
        kind && (
          <>
            <Button onClick={onClose}>Not now</Button>
            <Button look="primary" type="submit" form="reconnect" busy={rotate.isPending || login.isPending}>
              {kind === "login" ? "Go to the platform" : "Reconnect"}
            </Button>
          </>
        )
      }
    >
      <div className="space-y-4">
        {c.stateReason && isCredential(c.stateCause) && <Notice kind="warn" title="The platform's words">{whole(c.stateReason)}</Notice>}
        {!kind && <Notice kind="info">This page cannot write the credential that {c.connector} takes: use fireonce connections rotate.</Notice>}
        {kinds.length > 1 && <Segments label="Kind of credential" value={kind!} options={kinds.map((k) => ({ value: k, label: kindWords[k] }))} onChange={setKind} />}
        {kind && (
          <form id="reconnect" onSubmit={submit} className="space-y-4" autoComplete="off">
            {kind === "login" && (
              <Field label="App" hint="The name under which the operator has configured the platform's client id. You log in there, and come back." error={at("app")}>
                {(p) => <input {...p} className="field mono" required pattern="[a-z][a-z0-9_\-]*" placeholder={c.connector} value={user} onChange={(e) => setUser(e.target.value)} />}
              </Field>
            )}
            {(kind === "basic" || kind === "api_key_header") && (
              <Field label={kind === "basic" ? "User" : "Header"} error={at(kind === "basic" ? "username" : "name")}>
                {(p) => <input {...p} className="field mono" required autoComplete="off" placeholder={kind === "basic" ? "" : "X-Api-Key"} value={user} onChange={(e) => setUser(e.target.value)} />}
              </Field>
            )}
            {kind !== "login" && (
              <Field label={{ bearer_token: "Token", basic: "Password", webhook_secrets: "Secret", api_key_header: "Key" }[kind]} hint={kind === "webhook_secrets" ? "Begins with whsec_. Several with spaces: a request is signed with each." : undefined} error={at("token") ?? at("password") ?? at("secrets") ?? at("value")}>
                {(p) => <input {...p} type="password" className="field mono" required autoComplete="new-password" spellCheck={false} value={secret} onChange={(e) => setSecret(e.target.value)} autoFocus={kind === "bearer_token"} />}
              </Field>
            )}
            {fault && <Notice kind="bad" title="Not reconnected">{fault.fields.length ? fault.fields.map((f) => f.text).join(" ") : fault.text}</Notice>}
          </form>
        )}
      </div>
    </Dialog>
  );
}
