// A server with a tool for each format of one version of zod: node zod.mjs 4.1|4.6
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';

const { z } = await import(process.argv[2] === '4.1' ? 'zod-4-1' : 'zod');

// Each format with a value that it takes.
const formats = {
  email: [z.email(), 'ann@example.com'],
  url: [z.url(), 'https://example.com/a?b=c'],
  uuid: [z.uuid(), '0b5a1f58-9d5e-4f0b-8f3b-6f1e2d3c4b5a'],
  guid: [z.guid(), '0b5a1f58-9d5e-4f0b-8f3b-6f1e2d3c4b5a'],
  emoji: [z.emoji(), '🙂'],
  nanoid: [z.nanoid(), 'V1StGXR8_Z5jdHi6B-myT'],
  cuid: [z.cuid(), 'cjld2cjxh0000qzrmn831i7rn'],
  cuid2: [z.cuid2(), 'tz4a98xxat96iws9zmbrgj3a'],
  ulid: [z.ulid(), '01ARZ3NDEKTSV4RRFFQ69G5FAV'],
  xid: [z.xid(), '9m4e2mr0ui3e8a215n4g'],
  ksuid: [z.ksuid(), '0ujsswThIGTUYm2K8FjOOfXtY1K'],
  ipv4: [z.ipv4(), '192.0.2.1'],
  ipv6: [z.ipv6(), '2001:db8::1'],
  cidrv4: [z.cidrv4(), '192.0.2.0/24'],
  cidrv6: [z.cidrv6(), '2001::1/32'], // the pattern that 4.1 lists takes fewer than 4.1 does
  base64: [z.base64(), 'aGVsbG8='],
  base64url: [z.base64url(), 'aGVsbG8'],
  e164: [z.e164(), '+14155552671'],
  jwt: [z.jwt(), 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln'],
  hostname: [z.hostname(), 'www.example.com'],
  date: [z.iso.date(), '2026-11-23'],
  time: [z.iso.time(), '18:06:00'],
  datetime: [z.iso.datetime(), '2026-11-23T18:06:00Z'],
  duration: [z.iso.duration(), 'P3DT4H'],
  lowercase: [z.string().lowercase(), 'abc'],
  either: [z.discriminatedUnion('kind', [z.object({ kind: z.literal('mail'), to: z.email() }), z.object({ kind: z.literal('none') })]), { kind: 'mail', to: 'ann@example.com' }],
  record: [z.record(z.email(), z.number()), { 'ann@example.com': 1 }],
};

const server = new McpServer({ name: 'zod', version: '1' });
for (const [name, [schema, value]] of Object.entries(formats)) {
  server.registerTool(name, { description: JSON.stringify(value), inputSchema: { value: schema } }, async (given) => (
    { content: [{ type: 'text', text: JSON.stringify(given.value) }] }));
}
await server.connect(new StdioServerTransport());
