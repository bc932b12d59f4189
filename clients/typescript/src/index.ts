/** Client for Elytron, governed memory for AI agents. */
export type { CallOptions, ConnectOptions } from "./connection.js";
export {
  Conflict,
  ElytronError,
  type ErrorContext,
  errorKeys,
  GatewayRefused,
  InvalidInput,
  LimitExceeded,
  ModelError,
  NotFound,
  Overloaded,
  PermissionRefused,
  PreconditionFailed,
  RateLimited,
  SealError,
  SequenceAhead,
  StoreError,
  TransportOff,
  Unauthorized,
  Unreachable,
  Unsupported,
} from "./errors.js";
export type { EventGap, EventOptions, JournalEvent } from "./events.js";
export type { paths } from "./generated/api.js";
export { parseJson, writeJson } from "./json.js";
export { connect, type ExportOptions, type ImportOptions, Memory, type NewMessages, type SpaceArchive } from "./memory.js";
export type { OperationName, OperationReport, OperationRequest, Schemas } from "./operations.js";
export type { AgentBlocks, PageOptions, ServerConversations, UploadOptions, UserFiles } from "./places.js";
