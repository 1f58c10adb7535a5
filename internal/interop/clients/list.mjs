// Prints the tools of a server over stdio as they come: node list.mjs COMMAND ARGUMENT...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { z } from 'zod';

const [command, ...args] = process.argv.slice(2);
// Some servers list more to a client that can be asked, as the gateway can.
const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
const client = new Client({ name: 'list', version: '1' }, { capabilities });
await client.connect(new StdioClientTransport({ command, args }));
const all = [];
let cursor;
do {
  const page = await client.request({ method: 'tools/list', params: cursor ? { cursor } : {} }, z.looseObject({ tools: z.array(z.any()) }));
  all.push(...page.tools);
  cursor = page.nextCursor;
} while (cursor);
process.stdout.write(JSON.stringify(all));
await client.close();
