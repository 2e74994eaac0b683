/** A key that no other form has. It works over plain HTTP, too, where browsers have no randomUUID. */
export function newKey(): string {
  const random = crypto.getRandomValues(new Uint8Array(10));
  return `web-${[...random].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}
