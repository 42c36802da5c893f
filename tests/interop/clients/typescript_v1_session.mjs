// A whole session of the TypeScript SDK's client before version 2: what its application was asked and told, and what it
// got, is printed as JSON.
//
// Argument: a JSON object with the `url` of the server, and a `name` for this session.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitationCompleteNotificationSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const LIMIT = 15_000; // milliseconds for the session
const ROOT = "file:///home/me/kitchen";
const MOVED = "file:///home/me/garden";

const { url, name } = JSON.parse(process.argv[2]);
const asked = [];
const heard = [];
const reports = [];
let uris = [ROOT];
let last;
const heardLast = new Promise((resolve) => (last = resolve));

const timer = setTimeout(() => {
  console.error("took too long", { asked, heard });
  process.exit(1);
}, LIMIT);
const transport = new StreamableHTTPClientTransport(new URL(url));
const client = new Client(
  { name: "typescript_v1", version: "1.0.0" },
  { capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } } },
);
const call = async (tool, request) =>
  (await client.callTool({ name: tool, arguments: { id: name } }, undefined, request)).content[0].text;

// The person fills in a form; or opens a page, and does there what is to be done; meanwhile the client's roots change.
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  if (params.mode === "url") {
    asked.push(["page", params.message, params.url, params.elicitationId]);
    await call("pay");
    uris = [ROOT, MOVED];
    await client.sendRootsListChanged();
    return { action: "accept" };
  }
  const fields = Object.keys(params.requestedSchema.properties).sort();
  asked.push(["form", params.message, fields]);
  return { action: "accept", content: fields[0] === "value" ? { value: true } : { size: "large", cups: 2 } };
});
client.setRequestHandler(CreateMessageRequestSchema, ({ params: { messages, maxTokens } }) => {
  asked.push(["sample", messages[0].content.text, maxTokens]);
  return { role: "assistant", content: { type: "text", text: "Steam, then silence." }, model: "poet-1" };
});
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: uris.map((uri) => ({ uri })) }));
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params: { level, data } }) => {
  heard.push(["log", level, data]);
  if (data === "it is eaten") last();
});
client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ method, params: { elicitationId } }) => {
  heard.push([method, elicitationId]);
});

await client.connect(transport);
await client.setLoggingLevel("info");
const onprogress = ({ progress, total, message }) => {
  reports.push([progress, total, message]);
  heard.push(["progress", progress, total, message]);
};
const result = await call("banquet", { onprogress });
await heardLast; // a client may handle notifications and results side by side
await transport.terminateSession();
await client.close();
clearTimeout(timer);
console.log(JSON.stringify({ asked, heard, reports, result }));
