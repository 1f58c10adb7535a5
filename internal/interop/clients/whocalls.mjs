// A server that lets in who comes with a token that it can verify, and says with each call whose it was: node whocalls.mjs PORT SETTINGS,
// which is JSON of "sdk", 1 or 2, of the generation; "modern", whether the server speaks 2026-07-28 and nothing older; and either "keys",
// "issuer" and "audience" of identities, or "whose", the address of a provider that says for whom its token is. It prints a line of JSON
// for each call: the marker that the caller sent, and of whom the server holds the call to be.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { z } from 'zod';

const [port, settings] = process.argv.slice(2);
const { sdk, modern, keys, issuer, audience, whose } = JSON.parse(settings);
const own = new URL(`http://127.0.0.1:${port}/mcp`);

// Keys rotate within seconds here, so a set that is not known is fetched at once.
const set = keys && createRemoteJWKSet(new URL(keys), { cooldownDuration: 0 });

async function verified(token) {
  if (whose) {
    const answer = await (await fetch(whose, { headers: { Authorization: `Bearer ${token}` } })).json();
    if (!answer.sub && answer.gty !== 'client_credentials') throw new Error('no token of the provider');
    return { sub: answer.sub, exp: Date.now() / 1000 + 60 };
  }
  const { payload } = await jwtVerify(token, set, { issuer, audience, algorithms: ['ES256'], typ: 'drawbridge-identity+jwt' });
  return payload;
}

// Each generation has an error of its own for a token that is refused.
const verifier = (Refused) => ({
  async verifyAccessToken(token) {
    let claims;
    try {
      claims = await verified(token);
    } catch (error) {
      console.log(JSON.stringify({ refused: String(error) }));
      throw new Refused();
    }
    return { token, clientId: claims.client_id ?? '', scopes: [], expiresAt: claims.exp, resource: own, extra: claims };
  },
});

function offer(server) {
  server.registerTool('who', { inputSchema: z.object({ marker: z.string() }) }, async ({ marker }, context) => {
    const { sub, tenant = '' } = (context.authInfo ?? context.http.authInfo).extra;
    const session = context.sessionId ?? '';
    console.log(JSON.stringify({ marker, sub, tenant, session }));
    return { content: [{ type: 'text', text: `${tenant} ${sub}` }] };
  });
  return server;
}

// sessions serves revisions with sessions: Transport and McpServer are those of a generation.
function sessions(Transport, McpServer) {
  const open = new Map();
  return async (request, response) => {
    let transport = open.get(request.headers['mcp-session-id']);
    if (!transport) {
      transport = new Transport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => open.set(id, transport) });
      transport.onclose = () => open.delete(transport.sessionId);
      await offer(new McpServer({ name: 'who', version: '1' })).connect(transport);
    }
    await transport.handleRequest(request, response);
  };
}

async function first() {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const { requireBearerAuth } = await import('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');
  const { InvalidTokenError } = await import('@modelcontextprotocol/sdk/server/auth/errors.js');
  const { default: express } = await import('express');
  class Refused extends InvalidTokenError {
    constructor() {
      super('none that is known here');
    }
  }
  const app = express();
  app.all('/mcp', requireBearerAuth({ verifier: verifier(Refused), expectedResource: own }), sessions(StreamableHTTPServerTransport, McpServer));
  return app;
}

async function second() {
  const { McpServer, OAuthError, OAuthErrorCode, createMcpHandler, requireBearerAuth } = await import('@modelcontextprotocol/server');
  const { NodeStreamableHTTPServerTransport, toWebRequest } = await import('@modelcontextprotocol/node');
  class Refused extends OAuthError {
    constructor() {
      super(OAuthErrorCode.InvalidToken, 'none that is known here');
    }
  }
  const gate = requireBearerAuth({ verifier: verifier(Refused), expectedResource: own });
  const handler = createMcpHandler(() => offer(new McpServer({ name: 'who', version: '1' })), { legacy: 'reject' });
  const older = sessions(NodeStreamableHTTPServerTransport, McpServer);
  const pass = async (answer, response) => {
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) for await (const part of answer.body) response.write(part);
    response.end();
  };
  return async (request, response) => {
    const asked = new Request(own, { headers: { authorization: request.headers.authorization ?? '' } });
    const auth = await gate(asked);
    if (auth instanceof Response) return pass(auth, response);
    if (modern) return pass(await handler.fetch(await toWebRequest(request), { authInfo: auth }), response);
    request.auth = auth;
    return older(request, response);
  };
}

// Node closes connections that were idle for five seconds, and a call on one that it is about to close would be lost: this is no test of that.
const serve = sdk === 1 ? await first() : await second();
createServer({ keepAliveTimeout: 600_000 }, async (request, response) => {
  try {
    await serve(request, response);
  } catch { // whoever asked is gone
    response.destroy();
  }
}).listen(Number(port), '127.0.0.1', () => console.log('listening'));
