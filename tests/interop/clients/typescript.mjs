// The TypeScript SDK's client from version 2 on, in its three ways to choose the era.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { args, capabilities, command, elicit, options, roots, sample, tellAll } from "./telling.mjs";

const mode = options.era === "modern" ? { pin: "2026-07-28" } : options.era;
const client = new Client({ name: "typescript", version: "1.0.0" }, { capabilities, versionNegotiation: { mode } });
client.setRequestHandler("elicitation/create", elicit);
client.setRequestHandler("sampling/createMessage", sample);
client.setRequestHandler("roots/list", roots);
await client.connect(
  options.transport === "stdio"
    ? new StdioClientTransport({ command, args })
    : new StreamableHTTPClientTransport(new URL(options.url)),
);
await tellAll(client, (name, parameters, request) => client.callTool({ name, arguments: parameters }, request));
