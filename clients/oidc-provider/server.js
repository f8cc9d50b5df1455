// A real OpenID provider for tests: node server.js <certificate.pem> <key.pem> <directory with node_modules>
//
// Serves oidc-provider over HTTPS on a free port of the loopback interface and prints one line of JSON when ready:
// {"issuer": "https://127.0.0.1:PORT"}. Users log in without being asked: POST /login {user, groups} gives the id_token
// that the provider issues at the end of an authorization code flow, which this program goes through itself.
// POST /rotate replaces the signing key; POST /forge {claims, header, key} signs anything, for tokens that must be refused.

import { createServer } from 'node:https';
import { readFileSync } from 'node:fs';
import { generateKeyPairSync, createHash, createSign, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

const [certificateFile, keyFile, modules] = process.argv.slice(2);
const require = createRequire(pathToFileURL(path.join(modules, 'package.json')));
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

const CLIENT = { client_id: 'bailiwick', client_secret: 'not-a-secret', redirect_uris: ['https://127.0.0.1/callback'] };
const b64 = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/** Every key there ever was, the newest last: its private half and its JSON web key. */
const keys = [];
function newKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const kid = randomBytes(8).toString('hex');
  keys.push({ privateKey, jwk: { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' } });
}
newKey();

/** Groups of users, told at login. */
const groups = new Map();
let issuer;
let provider;

function build() {
  const built = new Provider(issuer, {
    clients: [{ ...CLIENT, grant_types: ['authorization_code'], response_types: ['code'] },
      { ...CLIENT, client_id: 'other', grant_types: ['authorization_code'], response_types: ['code'] }],
    jwks: { keys: [keys.at(-1).jwk] },
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['test'] },
    ttl: { IdToken: 3600, AccessToken: 3600, AuthorizationCode: 60, Grant: 3600, Interaction: 600, Session: 3600 },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, groups: groups.get(id) ?? [] }) }),
  });
  built.on('server_error', (_ctx, error) => console.error(error));
  return built;
}

async function body(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text ? JSON.parse(text) : {};
}

function answer(response, value) {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(value));
}

/** The browser's part of a login: follows redirects, keeps cookies. */
async function login({ user, client = CLIENT.client_id }) {
  const jar = new Map();
  const go = async (url, options = {}) => {
    const response = await fetch(new URL(url, issuer), {
      redirect: 'manual',
      ...options,
      headers: { ...options.headers, cookie: [...jar].map(([k, v]) => `${k}=${v}`).join('; ') },
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [pair] = cookie.split(';');
      const at = pair.indexOf('=');
      jar.set(pair.slice(0, at), pair.slice(at + 1));
    }
    return response;
  };
  const verifier = randomBytes(32).toString('base64url');
  const query = new URLSearchParams({
    client_id: client, response_type: 'code', scope: 'openid', redirect_uri: CLIENT.redirect_uris[0],
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
  });
  let response = await go(`/auth?${query}`);
  for (let hop = 0; hop < 10; hop += 1) {
    const target = response.headers.get('location');
    if (!target) throw new Error(`login stopped: ${response.status} ${await response.text()}`);
    if (target.startsWith(CLIENT.redirect_uris[0])) {
      const code = new URL(target).searchParams.get('code');
      if (!code) throw new Error(`no code: ${target}`);
      const answered = await go('/token', {
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          authorization: `Basic ${Buffer.from(`${client}:${CLIENT.client_secret}`).toString('base64')}`,
        },
        body: new URLSearchParams({
          grant_type: 'authorization_code', code, redirect_uri: CLIENT.redirect_uris[0], code_verifier: verifier,
        }),
      });
      return answered.json();
    }
    response = await go(target.includes('/interaction/') ? `${target}?user=${encodeURIComponent(user)}` : target);
  }
  throw new Error('too many redirects');
}

/** Says yes to whatever the provider asks. */
async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  const user = new URL(request.url, issuer).searchParams.get('user');
  let result;
  if (details.prompt.name === 'login') {
    result = { login: { accountId: user } };
  } else {
    const grant = new provider.Grant({ accountId: details.session.accountId, clientId: details.params.client_id });
    grant.addOIDCScope('openid');
    grant.addOIDCClaims(['sub', 'groups']);
    result = { consent: { grantId: await grant.save() } };
  }
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

/** A token with any claims, signed by the current key, by a key nobody knows, or not at all. */
function forge({ claims, header = {}, key = 'current' }) {
  const own = keys.at(-1);
  const privateKey = key === 'stranger' ? generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey : own.privateKey;
  const now = Math.floor(Date.now() / 1000);
  const payload = { iss: issuer, aud: CLIENT.client_id, iat: now, exp: now + 600, ...claims };
  const signed = `${b64({ alg: 'RS256', kid: own.jwk.kid, ...header })}.${b64(payload)}`;
  if (key === 'none') return `${signed}.`;
  return `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey, 'base64url')}`;
}

const tls = { cert: readFileSync(certificateFile), key: readFileSync(keyFile) };
const server = createServer(tls, async (request, response) => {
  try {
    if (request.method === 'POST' && request.url === '/login') {
      const wanted = await body(request);
      groups.set(wanted.user, wanted.groups ?? []);
      answer(response, await login(wanted));
    } else if (request.method === 'POST' && request.url === '/rotate') {
      newKey();
      provider = build();
      answer(response, { kid: keys.at(-1).jwk.kid });
    } else if (request.method === 'POST' && request.url === '/forge') {
      answer(response, { id_token: forge(await body(request)) });
    } else if (request.url.startsWith('/interaction/')) {
      await interact(request, response);
    } else {
      provider.callback()(request, response);
    }
  } catch (error) {
    console.error(error);
    response.statusCode = 500;
    response.end(String(error));
  }
});
server.listen(0, '127.0.0.1', () => {
  issuer = `https://127.0.0.1:${server.address().port}`;
  provider = build();
  console.log(JSON.stringify({ issuer }));
});
// Ends with whoever started it.
process.stdin.on('end', () => process.exit(0)).resume();
