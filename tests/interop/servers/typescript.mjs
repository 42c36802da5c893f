// A server written with the TypeScript SDK (@modelcontextprotocol/server 2.4.0), which asks in each way that it has.
// `node FILE` serves on stdio, `node FILE FD` over HTTP on a listening socket that the parent has bound already.

import { randomUUID } from "node:crypto";
import http from "node:http";
import { json } from "node:stream/consumers";

import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from "@modelcontextprotocol/node";
import {
  McpServer,
  createMcpHandler,
  fromJsonSchema,
  inputRequired,
  inputResponse,
  isLegacyRequest,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

import { haiku, listed, order, ordered, text, written } from "./questions.mjs";

const ended = new Map();
const string = { type: "string" };
const integer = { type: "integer" };
const object = (properties) => fromJsonSchema({ type: "object", properties, required: Object.keys(properties) });

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
  tool("count", { to: integer }, async ({ to }, { mcpReq }) => {
    for (let progress = 1; progress <= to; progress++) await report(mcpReq, progress, to, `step ${progress}`);
    return text(`counted to ${to}`);
  });
  // Never ends by itself; `heard` waits until it was cancelled.
  tool("hang", { name: string }, async ({ name }, { mcpReq }) => {
    const cancelled = new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve));
    ended.set(name, cancelled);
    await report(mcpReq, 1);
    await cancelled;
    return text("nobody reads this");
  });
  tool("heard", { name: string }, async ({ name }) => {
    await ended.get(name);
    return text(`${name} was cancelled`);
  });
}

function report(mcpReq, progress, total, message) {
  const params = { progressToken: mcpReq._meta.progressToken, progress, total, message };
  return mcpReq.notify({ method: "notifications/progress", params });
}

// Questions in the middle: the legacy wire only.
function inlineTools(tool) {
  tool("order_inline", { name: string }, async (args, { mcpReq }) => ordered(await mcpReq.elicitInput(order(args))));
  tool("haiku_inline", { topic: string }, async (args, { mcpReq }) =>
    written(await mcpReq.requestSampling(haiku(args))),
  );
  tool("roots_inline", {}, async (_, { mcpReq }) => listed(await mcpReq.send({ method: "roots/list" })));
}

// Questions that the tool returns: every wire.
function returnedTools(tool) {
  const asking = (name, schema, question, answered) =>
    tool(name, schema, (args, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, "answer");
      if (answer.kind === "missing")
        return inputRequired({ inputRequests: { answer: question(args) }, requestState: `asked by ${name}` });
      if (mcpReq.requestState() !== `asked by ${name}`) throw new Error("this is not the state that was given");
      return answered(answer);
    });
  asking("order_returned", { name: string }, (args) => inputRequired.elicit(order(args)), ordered);
  asking(
    "haiku_returned",
    { topic: string },
    (args) => inputRequired.createMessage(haiku(args)),
    ({ result }) => written(result),
  );
  asking("roots_returned", {}, () => inputRequired.listRoots(), listed);
}

function make() {
  const options = { instructions: "Made with TypeScript.", capabilities: { tools: {} } };
  const server = new McpServer({ name: "typescript", version: "2.4.0" }, options);
  const tool = (name, input, handler, output) => {
    const schemas = { inputSchema: object(input), ...(output && { outputSchema: object(output) }) };
    server.registerTool(name, { description: `The tool ${name}.`, ...schemas }, handler);
  };
  for (const add of [plainTools, inlineTools, returnedTools]) add(tool);
  return server;
}

const sessions = new Map();

// Sessions for the versions that know them, and one server for each request of the stateless one.
function serveHttp(fd) {
  const modern = toNodeHandler(createMcpHandler(make, { legacy: "reject" }), { onerror: console.error });
  const answer = async (request, response) => {
    const body = request.method === "POST" ? await json(request) : undefined;
    const isLegacy = await isLegacyRequest(await toWebRequest(request, body));
    return isLegacy ? (await session(request)).handleRequest(request, response, body) : modern(request, response, body);
  };
  http.createServer(answer).listen({ fd });
}

async function session(request) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known;
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await make().connect(transport);
  return transport;
}

if (process.argv.length > 2) serveHttp(Number(process.argv[2]));
else serveStdio(make);
