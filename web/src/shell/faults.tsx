import { Link, type ErrorComponentProps } from "@tanstack/react-router";
import { Compass } from "lucide-react";
import { Button, Empty, Notice } from "@/ui/basics";

export function Missing() {
  return (
    <Empty icon={Compass} title="There is no such page" action={<Button asChild><Link to="/">Go to what needs you</Link></Button>}>
      The address may be mistyped, or of another version.
    </Empty>
  );
}

export function Broken({ error, reset }: ErrorComponentProps) {
  const text = error instanceof Error ? error.message : String(error);
  return (
    <div className="p-6 md:p-8">
      <Notice
        kind="bad"
        title="This page broke"
        action={
          <Button size="sm" onClick={() => (text.includes("dynamically imported") ? window.location.reload() : reset())}>
            Try again
          </Button>
        }
      >
        {text}
      </Notice>
    </div>
  );
}
