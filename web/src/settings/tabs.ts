const names = ["pauses", "subscriptions", "keys", "servers"] as const;

/** The parts of the settings beside the first one. */
export type SettingsTab = (typeof names)[number];

export function parseSettings(raw: Record<string, unknown>): { tab?: SettingsTab } {
  const tab = names.find((n) => n === raw.tab);
  return tab ? { tab } : {};
}
