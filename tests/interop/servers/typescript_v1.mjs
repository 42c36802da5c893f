// A server written with the first TypeScript SDK (@modelcontextprotocol/sdk 1.32.2), which speaks the legacy wire only.
// `node FILE` serves on stdio, `node FILE FD` over HTTP on a listening socket that the parent has bound already.

import { randomUUID } from "node:crypto";
import http from "node:http";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  CreateMessageResultSchema,
  ElicitResultSchema,
  ListRootsResultSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

import { haiku, listed, order, ordered, text, written } from "./questions.mjs";

const ended = new Map();
const string = z.string();
const integer = z.number().int();

function plainTools(tool) {
  tool("echo", { message: string }, ({ message }) => text(message));
  tool(
    "add",
    { a: integer, b: integer },
    ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } }),
    { sum: integer },
  );
  tool("fail", { reason: string }, ({ reason }) => {
    throw new Error(reason);
  });
  tool("count", { to: integer }, async ({ to }, extra) => {
    for (let progress = 1; progress <= to; progress++) await report(extra, progress, to, `step ${progress}`);
    return text(`counted to ${to}`);
  });
  // Never ends by itself; `heard` waits until it was cancelled.
  tool("hang", { name: string }, async ({ name }, extra) => {
    const cancelled = new Promise((resolve) => extra.signal.addEventListener("abort", resolve));
    ended.set(name, cancelled);
    await report(extra, 1);
    await cancelled;
    return text("nobody reads this");
  });
  tool("heard", { name: string }, async ({ name }) => {
    await ended.get(name);
    return text(`${name} was cancelled`);
  });
}

function report(extra, progress, total, message) {
  const params = { progressToken: extra._meta.progressToken, progress, total, message };
  return extra.sendNotification({ method: "notifications/progress", params });
}

function inlineTools(tool) {
  tool("order_inline", { name: string }, async (args, { sendRequest }) =>
    ordered(await sendRequest({ method: "elicitation/create", params: order(args) }, ElicitResultSchema)),
  );
  tool("haiku_inline", { topic: string }, async (args, { sendRequest }) =>
    written(await sendRequest({ method: "sampling/createMessage", params: haiku(args) }, CreateMessageResultSchema)),
  );
  tool("roots_inline", {}, async (_, { sendRequest }) =>
    listed(await sendRequest({ method: "roots/list" }, ListRootsResultSchema)),
  );
}

function make() {
  const info = { name: "typescript v1", version: "1.32.2" };
  const server = new McpServer(info, { instructions: "Made with TypeScript." });
  const tool = (name, inputSchema, handler, outputSchema) =>
    server.registerTool(name, { description: `The tool ${name}.`, inputSchema, outputSchema }, handler);
  for (const add of [plainTools, inlineTools]) add(tool);
  return server;
}

const sessions = new Map();

async function answer(request, response) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.handleRequest(request, response);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await make().connect(transport);
  return transport.handleRequest(request, response);
}

if (process.argv.length > 2) http.createServer(answer).listen({ fd: Number(process.argv[2]) });
else await make().connect(new StdioServerTransport());
