/**
 * JSON without loss. A double holds integers up to 2^53; beyond it, an integer is read as a string of its digits and
 * written from a `bigint`.
 */
import { invalidInput } from "./error_keys.js";

/** Finds out at little cost that a text has no integer of 16 digits or more, so that it needs no scan. */
const longInteger = /(?:^|[[:,\s-])\d{16,}(?:[\s,}\]]|$)/;
const largestDigits = 1e21; // from here on, a double is written with an exponent, which the server reads as a float

/** Returns the value of a JSON text. Throws SyntaxError for what is not JSON. */
export function parseJson(text: string): unknown {
  return JSON.parse(longInteger.test(text) ? quoteLargeIntegers(text) : text);
}

/** Returns `value` as JSON. Throws InvalidInput for a number that JSON or a double cannot hold. */
export function writeJson(value: unknown): string {
  let hasBigint = false;
  const text = JSON.stringify(value, (_name, part: unknown) => {
    if (typeof part === "number") requireExact(part);
    if (typeof part !== "bigint") return part;
    hasBigint = true;
    return null;
  });
  return hasBigint ? (writeExactly(value) ?? "null") : text;
}

function requireExact(value: number): void {
  if (!Number.isFinite(value)) throw invalidInput("the request", "has a number that is not finite");
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < largestDigits)
    throw invalidInput("the request", "has an integer beyond 2^53, whose last digits are lost: pass a bigint");
}

/** Writes what `JSON.stringify` has accepted, which therefore has no cycle, with its bigints as numbers. */
function writeExactly(value: unknown): string | undefined {
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if ("toJSON" in value && typeof value.toJSON === "function") return writeExactly(value.toJSON());
  if (Array.isArray(value)) return `[${value.map((item) => writeExactly(item) ?? "null").join(",")}]`;
  const fields = Object.entries(value).flatMap(([name, field]) => {
    const text = writeExactly(field);
    return text === undefined ? [] : [`${JSON.stringify(name)}:${text}`];
  });
  return `{${fields.join(",")}}`;
}

function quoteLargeIntegers(text: string): string {
  const quoteOrNumber = /"|-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/g;
  const pieces: string[] = [];
  let copied = 0;
  for (let match; (match = quoteOrNumber.exec(text)) !== null; ) {
    const [token, fraction, exponent] = match;
    if (token === '"') {
      quoteOrNumber.lastIndex = stringEnd(text, match.index);
    } else if (fraction === undefined && exponent === undefined && !Number.isSafeInteger(Number(token))) {
      pieces.push(text.slice(copied, match.index), `"${token}"`);
      copied = quoteOrNumber.lastIndex;
    }
  }
  return pieces.join("") + text.slice(copied);
}

/** Returns the index behind the string that opens at `start`. A pattern with a loop would exhaust the stack. */
function stringEnd(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === "\\") backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return text.length;
}
