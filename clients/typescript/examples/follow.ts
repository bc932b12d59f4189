/** Print what is committed to a space until interrupted: `node follow.js http://127.0.0.1:8010 [PLACE]`. */
import { connect } from "elytron";

const [address = "http://127.0.0.1:8010", place] = process.argv.slice(2);
const controller = new AbortController();
process.once("SIGINT", () => controller.abort());

const memory = connect(address, { apiKey: process.env["ELYTRON_API_KEY"], space: process.env["ELYTRON_SPACE"] });
try {
  for await (const event of memory.events({ after: place, signal: controller.signal })) {
    if (event.type === "gap") console.log(`gap (${event.reason}): read the space again`);
    else console.log(event.id, event.action, event.collection);
  }
} catch (error) {
  if (!controller.signal.aborted) throw error;
}
