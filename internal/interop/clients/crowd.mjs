// Clients of both generations for the crowd of the labs: node crowd.mjs URL. It speaks JSON-RPC 1.0, a message a line. The
// methods are open, call and close, whose one parameter is {client, kind: "npm 1"|"npm 2", token, tool, arguments}. The result is
// {result} or {error, status, header, body}, where the last three are the answer to the call as it came over HTTP.
import { createInterface } from 'node:readline';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Transport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client';

const url = new URL(process.argv[2]);
const clients = new Map();

// open returns a connected client, which keeps the answer to its latest call.
async function open({ kind, token }) {
  const one = {};
  const options = {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
    fetch: async (target, init) => {
      const response = await fetch(target, init);
      if (init?.method === 'POST' && String(init.body).includes('"tools/call"')) {
        one.status = response.status;
        one.header = Object.fromEntries(response.headers);
        one.body = '';
        one.read = collect(response.clone(), one);
      }
      return response;
    },
  };
  const information = { name: 'crowd', version: '1' };
  if (kind === 'npm 1') {
    one.client = new Client1(information, { capabilities: {} });
    // After two tries, which is the default, it resumes a stream no more, says so to onerror alone, and the call
    // has no end for a minute. So it tries for longer than the crowd has patience, a second apart, as it is told.
    const reconnectionOptions = {
      maxRetries: 100, initialReconnectionDelay: 1000, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1,
    };
    one.transport = new Transport1(url, { ...options, reconnectionOptions });
  } else {
    one.client = new Client2(information, { capabilities: {}, versionNegotiation: { mode: { pin: '2026-07-28' } } });
    one.transport = new Transport2(url, options);
  }
  await one.client.connect(one.transport);
  return one;
}

// collect reads an answer beside the client.
async function collect(response, one) {
  try {
    const text = new TextDecoder();
    for await (const chunk of response.body ?? []) one.body += text.decode(chunk, { stream: true });
  } catch {
    // the connection broke, and what there is must do
  }
}

async function close(one) {
  if (one?.transport.terminateSession) await one.transport.terminateSession().catch(() => {});
  await one?.client.close().catch(() => {});
}

async function act(method, what) {
  const one = clients.get(what.client);
  switch (method) {
    case 'open':
      clients.set(what.client, await open(what));
      return {};
    case 'close':
      clients.delete(what.client);
      await close(one);
      return {};
  }
  delete one.status;
  return one.client.callTool({ name: what.tool, arguments: what.arguments });
}

process.on('unhandledRejection', () => {}); // of a stream that nobody waits for
for await (const text of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(text);
  const one = method === 'call' ? clients.get(params[0].client) : undefined;
  const say = (result) => process.stdout.write(`${JSON.stringify({ id, result, error: null })}\n`);
  act(method, params[0]).then(
    (result) => say({ result }),
    async (reason) => {
      const error = String(reason?.message ?? reason) || 'error';
      if (one?.status && one.status !== 200) await one.read;
      say({ error, status: one?.status, header: one?.header, body: one?.body });
    },
  );
}
