// A provider of OpenID Connect on loopback: node oidc-provider.mjs PORT SETTINGS, which is JSON of what the provider's own configuration
// has beside this, with the members "logout" for where logout tokens of the client drawbridge go, "exchange" for whether that client may
// exchange access tokens of people (with "keys" and "secret" in it, those of other issuers, signed by a key of that set or with HS256), "client" for what that client has beside this, and "people" for who there is.
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose';
import { Provider } from 'oidc-provider';

const [port, settings] = process.argv.slice(2);
const {
  logout, client, exchange,
  people = { alice: { email: 'alice@example.com', email_verified: true, groups: ['payments', 'search'] } },
  ...own
} = JSON.parse(settings);
const tokenExchange = 'urn:ietf:params:oauth:grant-type:token-exchange';

const drawbridge = {
  client_id: 'drawbridge',
  client_secret: 'a-client-secret-of-some-length',
  redirect_uris: ['https://mcp.example.com/callback/login'],
  grant_types: ['authorization_code', 'refresh_token', ...(exchange ? [tokenExchange, 'client_credentials'] : [])],
  ...(logout && { backchannel_logout_uri: logout, backchannel_logout_session_required: true }),
  ...client,
};
if (drawbridge.client_secret === null) delete drawbridge.client_secret;

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [drawbridge],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
  // Without a prompt for consent the library gives no refresh token to clients of this kind, as the standard wants.
  issueRefreshToken: async () => true,
  pairwiseIdentifier: async (_, sub, { clientId }) => `${sub}-for-${clientId}`,
  // The library's own way out does not go to loopback, where the gateway is.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  cookies: { keys: ['a key for tests'] },
  ...own,
  features: { clientCredentials: { enabled: Boolean(exchange) }, ...own.features },
});
if (exchange) {
  const keys = exchange.keys && createRemoteJWKSet(new URL(exchange.keys), { cooldownDuration: 0 });
  const secret = exchange.secret && new TextEncoder().encode(exchange.secret);
  // whose a token is; of another issuer, with the tenant
  const shownBy = async (token) => {
    if (!keys) return (await provider.AccessToken.find(token))?.accountId;
    const { payload } = await jwtVerify(token, decodeProtectedHeader(token).alg === 'HS256' ? secret : keys);
    return `${payload.org} ${payload.iss}#${payload.sub}`;
  };
  provider.registerGrantType(tokenExchange, async (ctx) => {
    const { client: asking, params } = ctx.oidc;
    const shown = await shownBy(params.subject_token).catch((error) => console.log(String(error)));
    if (!shown) {
      ctx.status = 400;
      ctx.body = { error: 'invalid_grant', error_description: 'the subject token is none of this provider' };
      return;
    }
    const token = new provider.AccessToken({ accountId: shown, client: asking, gty: 'token_exchange', scope: 'read' });
    ctx.body = {
      access_token: await token.save(), issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      token_type: 'Bearer', expires_in: token.expiration,
    };
  }, ['subject_token', 'subject_token_type', 'requested_token_type', 'audience']);
  // who a token is for, as a server that has one asks
  provider.use(async (ctx, next) => {
    if (ctx.path !== '/whose') return next();
    const shown = ctx.get('authorization').slice('Bearer '.length);
    const token = await provider.AccessToken.find(shown);
    const own = !token && await provider.ClientCredentials.find(shown);
    ctx.body = { sub: token?.accountId ?? '', gty: token?.gty ?? (own ? 'client_credentials' : '') };
  });
}
provider.on('backchannel.error', (_, error) => console.log('no logout', error));
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
