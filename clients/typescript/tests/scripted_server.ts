/** An HTTP server that answers as a test says, for what a healthy Elytron server does not do. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface SentRequest {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** Answers one request; the number counts from 1. */
export type ScriptedAnswer = (response: ServerResponse, request: SentRequest, number: number) => void;

export async function scriptedServer(answer: ScriptedAnswer) {
  const requests: SentRequest[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url: path = "", headers } = request;
    const sent = { method, path, headers, body: Buffer.concat(chunks).toString() };
    requests.push(sent);
    answer(response, sent, requests.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    stop: () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Answers with a problem document. */
export function problem(
  response: ServerResponse,
  status: number,
  code: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
  response.end(JSON.stringify({ status, code, detail: `it is ${code}`, details: {}, retryable: true }));
}

export function answerJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}
