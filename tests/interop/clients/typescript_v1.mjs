// The TypeScript SDK's client before version 2: sessions only.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { args, capabilities, command, elicit, options, roots, sample, tellAll } from "./telling.mjs";

const client = new Client({ name: "typescript_v1", version: "1.0.0" }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, elicit);
client.setRequestHandler(CreateMessageRequestSchema, sample);
client.setRequestHandler(ListRootsRequestSchema, roots);
await client.connect(
  options.transport === "stdio"
    ? new StdioClientTransport({ command, args })
    : new StreamableHTTPClientTransport(new URL(options.url)),
);
await tellAll(client, (name, parameters, request) =>
  client.callTool({ name, arguments: parameters }, undefined, request),
);
