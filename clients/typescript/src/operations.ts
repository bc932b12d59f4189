/** The types of every operation, by its name. */
import type { components, paths } from "./generated/api.js";
import type { operations } from "./generated/operations.js";

/** The types of the API, by the names that the server's documentation uses. */
export type Schemas = components["schemas"];
export type OperationName = keyof typeof operations;

type Posted<Name extends OperationName> = paths[`/v1/${Name}`]["post"];
export type OperationRequest<Name extends OperationName> =
  Posted<Name> extends { requestBody: { content: { "application/json": infer Body } } } ? Body : never;
export type OperationReport<Name extends OperationName> =
  Posted<Name> extends { responses: { 200: { content: { "application/json": infer Body } } } } ? Body : never;

/** The fields of an operation's request, without those that a call names itself. */
export type RequestFields<Name extends OperationName, Named extends string = never> = Omit<
  OperationRequest<Name>,
  Named
>;
