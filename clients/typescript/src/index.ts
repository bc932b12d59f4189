/** Client for Elytron, governed memory for AI agents. */
export type { AgentBlocks } from "./blocks.js";
export type { CallOptions, ConnectOptions } from "./connection.js";
export type { PageOptions, ServerConversations } from "./conversations.js";
export { errorKeys } from "./error_keys.js";
export * from "./errors.js";
export type { EventGap, EventOptions, JournalEvent } from "./events.js";
export type { UploadOptions, UserFiles } from "./files.js";
export type { paths } from "./generated/api.js";
export { parseJson, writeJson } from "./json.js";
export {
  connect,
  type ExportOptions,
  type ImportOptions,
  Memory,
  type NewMessages,
  type SpaceArchive,
} from "./memory.js";
export type { OperationName, OperationReport, OperationRequest, Schemas } from "./operations.js";
