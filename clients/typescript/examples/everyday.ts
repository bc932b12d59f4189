/** Store what was said, recall it, correct a fact, and erase: `node everyday.js http://127.0.0.1:8010`. */
import { connect } from "elytron";

const [address = "http://127.0.0.1:8010"] = process.argv.slice(2);
const memory = connect(address, { apiKey: process.env["ELYTRON_API_KEY"], space: process.env["ELYTRON_SPACE"] });

const { ids } = await memory.add("The boat key is under the oar.", { speaker: "Ada", conversation: "boat" });
const { hits } = await memory.recall("Where is the boat key?", { limit: 1 });
console.log(hits[0]?.text);

const { id = "" } = await memory.addFact("tea", "Ada drinks green tea");
await memory.correct(id, "Ada drinks white tea", { reason: "misheard" });
console.log((await memory.listFacts()).items.map(({ content }) => content));

const { removed } = await memory.erase(ids);
console.log(removed);
