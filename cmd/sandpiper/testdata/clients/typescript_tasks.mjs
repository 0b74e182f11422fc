// A program that drives background executions as tasks of the protocol with release 2 of the
// TypeScript SDK: typescript_tasks.mjs URL TOKEN writes as JSON what came of it.
const [url, token] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');

const client = new Client(
  { name: 'typescript', version: '1' },
  { capabilities: { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));

const any = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } };
const request = (method, taskId, more) => client.request({ method, params: { taskId, ...more } }, any);

async function dispatch(code) {
  const result = await client.callTool({ name: 'dispatch_background_task', arguments: { code } });
  return JSON.parse(result.content[0].text).execution_id;
}

async function until(taskId, status) {
  for (;;) {
    const task = await request('tasks/get', taskId);
    if (task.status === status) return task;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const came = {};
const asks = await dispatch("result = [ask('Which colour?'), sleep_for(2)]");
came.asked = Object.values((await until(asks, 'input_required')).inputRequests).map((r) => r.params.message);
await request('tasks/update', asks, { inputResponses: { q1: { action: 'accept', content: { answer: 'blue' } } } });
came.result = JSON.parse((await until(asks, 'completed')).result.content[0].text).result;

const endless = await dispatch('while True: pass');
await until(endless, 'working');
await request('tasks/cancel', endless);
came.cancelled = (await until(endless, 'cancelled')).status;
came.unknown = await request('tasks/get', 'exec_none').then(() => 0, (error) => error.code);
// This release does not know calls that are answered by a task, and says so.
came.call = await client.callTool({ name: 'execute_code', arguments: { code: 'import time; time.sleep(3)' } }).then(() => 'complete', (error) => error.message);
await client.close();
console.log(JSON.stringify(came));
