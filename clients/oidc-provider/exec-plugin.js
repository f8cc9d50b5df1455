// A credential plugin of kubectl: node exec-plugin.js <issuer> <user> <group,…>
//
// Logs the user in at the provider of server.js and prints the ExecCredential that kubectl asks plugins for.

const [issuer, user, groups] = process.argv.slice(2);
const answer = await fetch(new URL('/login', issuer), {
  method: 'POST',
  body: JSON.stringify({ user, groups: groups ? groups.split(',') : [] }),
});
const { id_token: token } = await answer.json();
const { exp } = JSON.parse(Buffer.from(token.split('.')[1], 'base64url'));
console.log(JSON.stringify({
  apiVersion: 'client.authentication.k8s.io/v1',
  kind: 'ExecCredential',
  status: { token, expirationTimestamp: new Date(exp * 1000).toISOString() },
}));
