// An authorization server of oidc-provider that gives tokens to one client, for itself and
// in exchange for tokens of people that an issuer with a shared secret has signed.
import { createHmac, timingSafeEqual } from 'node:crypto';
import Provider from 'oidc-provider';

const [port, secret, clientSecret, jwk] = process.argv.slice(2);
const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const server = { scope: 'read', accessTokenFormat: 'jwt', accessTokenTTL: 600 };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    { client_id: 'gw', client_secret: clientSecret, grant_types: ['client_credentials', exchange], redirect_uris: [], response_types: [] },
    {
      client_id: 'signer', token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [JSON.parse(jwk)] },
      grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
    },
  ],
  clientAuthMethods: ['client_secret_basic', 'private_key_jwt'],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'https://erp.example/mcp',
      getResourceServerInfo: (_, resource) => ({ ...server, audience: resource }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});

// subject returns the subject of a token, if its signature is good.
function subject(token) {
  const [header, claims, signature] = token.split('.');
  const want = createHmac('sha256', secret).update(`${header}.${claims}`).digest();
  const got = Buffer.from(signature ?? '', 'base64url');
  if (got.length !== want.length || !timingSafeEqual(got, want)) throw new Error('bad signature');
  return JSON.parse(Buffer.from(claims, 'base64url')).sub;
}

provider.registerGrantType(exchange, async (ctx) => {
  const { client, params } = ctx.oidc;
  let accountId;
  try {
    accountId = subject(params.subject_token);
  } catch {
    ctx.status = 400;
    ctx.body = { error: 'invalid_grant', error_description: `${params.subject_token} is not good` };
    return;
  }
  const token = new provider.AccessToken({ accountId, client, gty: 'token_exchange', scope: 'read' });
  token.resourceServer = new provider.ResourceServer(params.audience, { ...server, audience: params.audience });
  ctx.body = {
    access_token: await token.save(), issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    token_type: 'Bearer', expires_in: token.expiration,
  };
}, ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'actor_token', 'actor_token_type']);

provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
