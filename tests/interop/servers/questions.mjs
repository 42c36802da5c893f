// What the TypeScript servers ask, and what they say to the answers.

const form = {
  type: "object",
  properties: { size: { type: "string", enum: ["small", "large"] }, cups: { type: "integer", default: 1 } },
  required: ["size"],
};

export const order = ({ name }) => ({ message: `Which coffee for ${name}?`, requestedSchema: form });
export const haiku = ({ topic }) => ({
  messages: [{ role: "user", content: { type: "text", text: `A haiku about ${topic}` } }],
  maxTokens: 50,
});

export const text = (value) => ({ content: [{ type: "text", text: value }] });
export const ordered = ({ action, content }) =>
  text(action === "accept" ? `accept ${content.cups} ${content.size}` : action);
export const written = ({ content }) => text(content.text);
export const listed = ({ roots }) => text(roots.map((root) => root.uri).join(" "));
