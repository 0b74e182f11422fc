// What a program does with the TypeScript SDK: typescript.mjs RELEASE MODE URL TOKEN
// writes as JSON what came of it. RELEASE is 1 or 2, MODE how release 2 agrees on
// a version of the protocol. TestTypeScript knows what should come of it.
const [release, mode, url, token] = process.argv.slice(2);

const { Client, StreamableHTTPClientTransport, elicitation } = await {
  1: async () => ({
    ...(await import('@modelcontextprotocol/sdk/client/index.js')),
    ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
    elicitation: (await import('@modelcontextprotocol/sdk/types.js')).ElicitRequestSchema,
  }),
  2: async () => ({ ...(await import('@modelcontextprotocol/client')), elicitation: 'elicitation/create' }),
}[release]();

const asked = [];

async function connect(token) {
  const client = new Client(
    { name: 'typescript', version: '1' },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode: /^\d/.test(mode) ? { pin: mode } : mode } },
  );
  client.setRequestHandler(elicitation, async (request) => {
    asked.push(request.params.message);
    return { action: 'accept', content: { value: 'blue' } };
  });
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

async function run(client, code, options) {
  const params = { name: 'execute_code', arguments: { code, timeout_seconds: 300 } };
  const result = release === '1' ? await client.callTool(params, undefined, options) : await client.callTool(params, options);
  return JSON.parse(result.content[0].text);
}

const came = {};
came.refused = await connect('nobody-has-this-token').then(() => 'no', (error) => [error.code, error.status, error.message].join(' '));

const client = await connect(token);
came.tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
came.value = (await run(client, '6 * 7')).result;

// The code waits until its progress is seen, which an answer right behind it
// would keep the SDK from showing.
came.progress = [];
const onprogress = ({ progress, total, message }) => {
  came.progress.push({ progress, total, message });
  run(client, "write_file('seen', '')");
};
await run(client, "import os\nprogress(1, 2, 'half')\nwhile not os.path.exists('seen'): pass", { onprogress });

const leave = new AbortController();
const endless = `
import fcntl
held = open('held', 'w')
fcntl.lockf(held, fcntl.LOCK_EX)
progress(1, 2, 'running')
while True: pass`;
const options = { signal: leave.signal, onprogress: () => leave.abort(new Error('enough')) };
came.cancelled = await run(client, endless, options).then(() => 'no', String);

const question = (text) => `ask(${JSON.stringify(text)}, {'type': 'object', 'properties': {'value': {'type': 'string'}}})`;
came.answers = (await run(client, `[${question('First?')}, ${question('Second?')}]`)).result;
came.asked = asked;

await client.close();
console.log(JSON.stringify(came));
