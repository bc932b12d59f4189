/** Prints the milliseconds of each of COUNT recalls as a JSON list: `node scripts/measure.mjs ADDRESS COUNT`. */
import { connect } from "../dist/index.js";

const [address, count] = process.argv.slice(2);
const memory = connect(address, { space: "ada" });
const times = [];
for (let number = 0; number < Number(count); number += 1) {
  const began = performance.now();
  await memory.recall(`What is boat ${number} called?`);
  times.push(performance.now() - began);
}
console.log(JSON.stringify(times));
