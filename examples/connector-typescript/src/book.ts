/**
 * The platform of this example: a guest book, which is a file with one entry in a
 * line. It remembers the key of each entry, and makes one entry of each key, however
 * often it is asked to.
 */
import { closeSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";

interface Entry {
  key: string;
  text: string;
}

/** Thrown when nobody knows whether an entry was written. */
export class WriteUnknown extends Error {}

/** Thrown when a key is used for another text than before. */
export class KeyReused extends Error {}

export class Book {
  readonly #file: number;
  readonly #known = new Map<string, { id: string; text: string }>();
  #end = 0;
  #failed = false;

  constructor(path: string) {
    this.#file = openSync(path, "a+");
    const data = readFileSync(path);
    // A crash may have left half of a line. It was never an entry.
    ftruncateSync(this.#file, data.lastIndexOf("\n") + 1);
    for (const line of data.subarray(0, data.lastIndexOf("\n") + 1).toString().split("\n").slice(0, -1)) {
      const entry = JSON.parse(line) as Entry;
      this.#known.set(entry.key, { id: String(this.#end), text: entry.text });
      this.#end += Buffer.byteLength(line) + 1;
    }
  }

  /** The id of a key's entry, which is there when this returns. An id is where its line begins. */
  add(entry: Entry): string {
    if (this.#failed) throw new WriteUnknown("an earlier write failed"); // until a restart has read what is there
    const before = this.#known.get(entry.key);
    if (before !== undefined) {
      if (before.text !== entry.text) throw new KeyReused("the key is that of another entry");
      return before.id;
    }
    const line = Buffer.from(JSON.stringify(entry) + "\n");
    try {
      if (writeSync(this.#file, line) !== line.length) throw new Error("a short write");
      fsyncSync(this.#file);
    } catch (error) {
      this.#failed = true;
      throw new WriteUnknown("the file did not confirm the write", { cause: error });
    }
    const id = String(this.#end);
    this.#known.set(entry.key, { id, text: entry.text });
    this.#end += line.length;
    return id;
  }

  close(): void {
    closeSync(this.#file);
  }
}
