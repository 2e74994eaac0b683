import { KeyRound } from "lucide-react";
import { useState, type FormEvent } from "react";
import { signIn, type Who } from "@/api/session";
import { Button, Field, Notice } from "@/ui/basics";
import { Logo } from "./Logo";
import { isInsecure, PlainHTTP } from "./PlainHTTP";

/** Asks for an API key, once: the server answers with a session that no script can read. */
export function SignIn({ who }: { who: Who }) {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await signIn(key);
    } catch (failed) {
      setError(failed instanceof TypeError ? "The server does not answer." : (failed as Error).message);
      setBusy(false);
    }
  };
  return (
    <main className="flex min-h-full items-center justify-center p-5">
      <div className="w-full max-w-sm">
        <div className="mb-7 flex justify-center">
          <Logo large />
        </div>
        <form onSubmit={(e) => void submit(e)} className="card space-y-4 p-6">
          <div>
            <h1 className="text-[17px] font-semibold">Sign in</h1>
            <p className="mt-1 text-dim">With an API key of this server. You see what the key may see.</p>
          </div>
          {who.refusal ? (
            <Notice kind="warn">{who.refusal}</Notice>
          ) : (
            <>
              {isInsecure() && <PlainHTTP />}
              <Field label="API key" error={error}>
                {(p) => (
                  <input
                    {...p}
                    type="password"
                    name="password"
                    autoComplete="current-password"
                    spellCheck={false}
                    autoFocus
                    required
                    className="field mono"
                    placeholder="fo_…"
                    value={key}
                    onChange={(e) => setKey(e.target.value)}
                  />
                )}
              </Field>
              <Button type="submit" look="primary" className="w-full" busy={busy}>
                {!busy && <KeyRound className="size-4" aria-hidden />}
                Sign in
              </Button>
            </>
          )}
        </form>
        <p className="mt-5 text-center text-[13px] text-faint">
          No key? On the server: <code>fireonce apikeys create</code>
        </p>
      </div>
    </main>
  );
}
