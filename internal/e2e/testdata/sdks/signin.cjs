// Signs in with the MCP SDK for TypeScript, as Claude Code does: the SDK finds the
// authorization server, registers, and renews its token by itself. Says nothing when all is well.
//
//	node signin.cjs URL KEY
const assert = require('node:assert')
const { Client } = require('@modelcontextprotocol/sdk/client/index.js')
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js')
const { UnauthorizedError } = require('@modelcontextprotocol/sdk/client/auth.js')
const { consent } = require('./consent.cjs')

const [url, key] = process.argv.slice(2)
const stored = {}
const provider = {
  redirectUrl: 'http://127.0.0.1:33418/callback',
  clientMetadata: { client_name: 'agent', redirect_uris: ['http://127.0.0.1:33418/callback'], grant_types: ['authorization_code', 'refresh_token'] },
  state: () => 'the state',
  clientInformation: () => stored.client,
  saveClientInformation: (client) => { stored.client = client },
  tokens: () => stored.tokens,
  saveTokens: (tokens) => { stored.tokens = tokens },
  redirectToAuthorization: (to) => { stored.to = to },
  saveCodeVerifier: (verifier) => { stored.verifier = verifier },
  codeVerifier: () => stored.verifier,
}
const transport = () => new StreamableHTTPClientTransport(new URL('/mcp', url), { authProvider: provider })
const client = () => new Client({ name: 'agent', version: '1' })

async function main() {
  const first = transport()
  await assert.rejects(client().connect(first), UnauthorizedError)
  const answer = new URL(await consent(stored.to, key)).searchParams
  assert.deepEqual([answer.get('state'), answer.get('iss')], ['the state', url])
  await first.finishAuth(answer.get('code'))

  const signedIn = client()
  await signedIn.connect(transport())
  assert.ok((await signedIn.listTools()).tools.length > 0)

  const { access_token, refresh_token } = stored.tokens
  stored.tokens = { ...stored.tokens, access_token: access_token + 'x' } // as if its hour were over
  assert.ok((await signedIn.listTools()).tools.length > 0)
  assert.notEqual(stored.tokens.access_token, access_token)
  assert.notEqual(stored.tokens.refresh_token, refresh_token)
  await signedIn.close()
}

main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
