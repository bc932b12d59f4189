/** JSON without loss. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidInput, parseJson, writeJson } from "../src/index.js";

test("integers beyond 2^53 are read as strings, all others as numbers", () => {
  const text =
    '{"a": 9007199254740993, "b": [-9007199254740993, 9007199254740991], "c": 1e300, "d": 0.1234567890123456789}';
  const read = parseJson(text);
  assert.deepEqual(read, {
    a: "9007199254740993",
    b: ["-9007199254740993", 9007199254740991],
    c: 1e300,
    d: 0.12345678901234568,
  });
  assert.equal(parseJson("9007199254740993"), "9007199254740993");
  assert.equal(parseJson("12345678901234567e-3"), 12345678901234.567);
});

test("digits in texts and names stay as they are", () => {
  const value = { 'quote " 9007199254740993,': "9007199254740993", path: "a\\\\", next: '\\" 90071992547409931 ,' };
  assert.deepEqual(parseJson(`{"x": 9007199254740993, "y": ${JSON.stringify(value)}}`), {
    x: "9007199254740993",
    y: value,
  });
});

test("what is not JSON is refused, also with long integers in it", () => {
  for (const text of [
    "[9007199254740993",
    "[09007199254740993]",
    '{"a": 9007199254740993"',
    '["a 90071992547409931 ',
  ]) {
    assert.throws(() => parseJson(text), SyntaxError);
  }
});

test("a text of many megabytes is read without exhausting the stack", () => {
  const long = `${'\\"'.repeat(2_000_000)}a`;
  assert.deepEqual(parseJson(`[9007199254740993, "${long}"]`), ["9007199254740993", JSON.parse(`"${long}"`)]);
});

test("a bigint is written as a number, at any depth", () => {
  const value = { a: 2n ** 64n, at: new Date(0), gone: undefined, list: [undefined, 1n, { b: -1n }], text: "1n" };
  assert.equal(
    writeJson(value),
    '{"a":18446744073709551616,"at":"1970-01-01T00:00:00.000Z","list":[null,1,{"b":-1}],"text":"1n"}',
  );
  assert.equal(writeJson({ a: 1.5, b: 1e300, c: null }), '{"a":1.5,"b":1e+300,"c":null}');
});

test("a number that would lose digits or is not finite is refused", () => {
  for (const value of [2 ** 53, -(2 ** 60), Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.throws(() => writeJson({ list: [value] }), InvalidInput);
  }
});
