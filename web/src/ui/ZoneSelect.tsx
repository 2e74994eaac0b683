import { isZone, ownZone } from "./format";
import { zones } from "./zones";

/** A choice of a zone: type a part of its name. */
export function ZoneSelect({ value, onChange, ...rest }: { value: string; onChange: (zone: string) => void; id?: string; "aria-label"?: string; "aria-invalid"?: true; "aria-describedby"?: string }) {
  return (
    <select {...rest} className="field" value={value} onChange={(e) => onChange(e.target.value)}>
      {!zones.includes(value) && isZone(value) && <option value={value}>{value}</option>}
      <optgroup label="Yours">
        <option value={ownZone}>{ownZone}</option>
      </optgroup>
      <optgroup label="All">
        {zones
          .filter((z) => z !== ownZone)
          .map((z) => (
            <option key={z} value={z}>
              {z}
            </option>
          ))}
      </optgroup>
    </select>
  );
}
