// Serves over MCP the library @utcp/code-mode, as a tool that executes code. The
// servers are in the second argument.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

console.log = console.error; // standard output has the protocol
const [packages, config] = process.argv.slice(2);
const resolve = createRequire(packages + "/").resolve;
const load = (name) => import(pathToFileURL(resolve(name)).href);
const { CodeModeUtcpClient } = await load("@utcp/code-mode");
await load("@utcp/mcp");
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const { z } = await load("zod");

const client = await CodeModeUtcpClient.create();
await client.registerManual({ name: "peers", call_template_type: "mcp", config: JSON.parse(config) });
const server = new McpServer({ name: "utcp", version: "1" });
server.registerTool("execute", { inputSchema: { code: z.string() } }, async ({ code }) => {
  const { result, logs } = await client.callToolChain(code);
  return { content: [{ type: "text", text: JSON.stringify(result ?? logs) }] };
});
process.stdin.on("end", () => process.exit(0)); // the servers would keep it running
await server.connect(new StdioServerTransport());
