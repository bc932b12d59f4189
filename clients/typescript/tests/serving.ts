/** A real server for a test file, on a free port of this machine. */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export interface RunningServer {
  url: string;
  /** The folder of the server's store, for files of the test. */
  folder: string;
  /** What the server printed when it was ready. */
  printed: Record<string, unknown>;
  stop(): Promise<void>;
}

/** Starts `elytron serve` and resolves when it answers. `elytron` must be on the path. */
export async function serve(...options: string[]): Promise<RunningServer> {
  const folder = await mkdtemp(join(tmpdir(), "elytron-client-"));
  const words = ["serve", "--port", "0", "--json", "--store", join(folder, "memory.db"), ...options];
  const server = spawn("elytron", words, { stdio: ["ignore", "pipe", "pipe"] });
  const problems: string[] = [];
  server.stderr.on("data", (chunk) => problems.push(String(chunk)));
  server.on("error", (error) => problems.push(String(error)));
  const ended = new Promise<void>((resolve) => server.once("exit", () => resolve()));
  let text = "";
  for await (const line of createInterface(server.stdout)) {
    text += line;
    if (line === "}") break;
  }
  if (text === "") throw new Error(`the server did not start: ${problems.join("")}`);
  const printed = JSON.parse(text) as Record<string, unknown>;
  return {
    url: printed["address"] as string,
    folder,
    printed,
    stop: async () => {
      server.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Posts to a route that the client does not call, for what a test needs first. */
export async function post(url: string, body: unknown, key?: string): Promise<Record<string, unknown>> {
  const headers = {
    "Content-Type": "application/json",
    ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
  };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Record<string, unknown>;
}
