// Calls a server by the types that openapi-typescript made of its description.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const recall: components["schemas"]["MemoryRecallRequest"] = { query: "Lisbon" };
const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });

const added = await client.POST("/v1/add", { body: { text: "We moved to Lisbon in May." } });
if (!added.data) throw new Error(added.error.detail);
const found = await client.POST("/v1/search", { body: { query: "Lisbon" } });
const typed = await client.POST("/v1/recall", { body: recall });
if (found.data?.hits[0]?.id !== added.data.ids[0]) throw new Error("what was added is not found");
if (typed.data?.hits[0]?.text !== "We moved to Lisbon in May.") throw new Error("what was added is not recalled");
