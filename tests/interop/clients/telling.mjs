// The cells of a client that is written in JavaScript: what it saw in each is printed as a line of JSON.
//
// Argument: a JSON object with the `transport` and the `era`, the `command` and `url` of the server, and a `name` for
// this run.

const LIMIT = 15_000; // milliseconds for one cell

export const options = JSON.parse(process.argv[2]);
export const [command, ...args] = options.command;
export const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };

const asked = [];

// The handlers, for both SDKs: what the person and the model were asked is told later.

// Nobody wants tea.
export function elicit({ params: { message, requestedSchema } }) {
  asked.push([message, Object.keys(requestedSchema.properties).sort()]);
  return message.includes("tea") ? { action: "decline" } : { action: "accept", content: { size: "large", cups: 2 } };
}

export function sample({ params: { messages, maxTokens } }) {
  asked.push([messages[0].content.text, maxTokens]);
  return { role: "assistant", content: { type: "text", text: "Steam, then silence." }, model: "poet-1" };
}

export function roots() {
  return { roots: [{ uri: "file:///home/me/kitchen" }] };
}

function limited(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("took too long")), LIMIT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Run every cell on one connection; one that fails tells its error.
// client: connected.  call: (tool, arguments, options of the request) -> result
export async function tellAll(client, call) {
  const text = async (tool, parameters = {}) => (await call(tool, parameters)).content[0].text;

  const asking = async (tool, parameters) => {
    asked.length = 0;
    return { text: await text(tool, parameters), asked };
  };

  const cells = {
    list: async () => {
      const { tools } = await client.listTools();
      return Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema.properties]));
    },
    call: () => text("add", { a: 2, b: 3 }),
    "structured output": async () => (await call("weather", { city: "Oslo" })).structuredContent,
    error: async () => {
      const result = await call("fail", {});
      return { error: result.isError, text: result.content[0].text };
    },
    progress: async () => {
      const reports = [];
      const sips = [];
      const onprogress = ({ progress, total, message }) => {
        reports.push([progress, total, message]);
        sips.push(text("sip", { id: options.name }));
      };
      const result = await call("brew", { id: options.name }, { onprogress });
      await Promise.all(sips);
      return { reports, text: result.content[0].text };
    },
    cancel: async () => {
      const controller = new AbortController();
      const hanging = call(
        "hang",
        { id: options.name },
        { signal: controller.signal, onprogress: () => controller.abort("enough") },
      );
      const ended = await hanging.then(() => "returned", () => "ended");
      return ended === "ended" ? text("outcome", { id: options.name }) : ended;
    },
    "elicit (form)": () => asking("order", { item: "coffee" }),
    "elicit (decline)": () => asking("order", { item: "tea" }),
    sample: () => asking("haiku", { topic: "coffee" }),
    roots: () => text("where"),
  };
  for (const [cell, run] of Object.entries(cells)) {
    const saw = await limited(run()).catch((error) => String(error));
    console.log(JSON.stringify({ cell, saw }));
  }
  await client.close();
}
