// Signs in with the programs that people run: mcp-remote, which connects apps without a sign-in of their own, and the
// Inspector. Each says where its user must go. Says nothing when all is well.
//
//	node clients.cjs URL KEY
const assert = require('node:assert')
const path = require('node:path')
const { spawn } = require('node:child_process')
const { Client } = require('@modelcontextprotocol/sdk/client/index.js')
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js')
const { consent } = require('./consent.cjs')

const [url, key] = process.argv.slice(2)
const program = (name, file) => path.join(process.env.CLIENTS, name, file)
// A home of their own, and a browser that does nothing: the user is this script.
const env = { ...process.env, MCP_REMOTE_CONFIG_DIR: process.env.HOME, MCP_INSPECTOR_SECRET_STORE: 'memory', MCP_AUTO_OPEN_ENABLED: 'true', BROWSER: 'true' }

// signIn sends the user where the program says, and the answer to the program.
async function signIn(stderr) {
  let said = ''
  for await (const data of stderr.iterator({ destroyOnReturn: false })) {
    said += data
    const to = /\s(http\S+\/oauth\/authorize\S+)\s/.exec(said)
    if (!to) continue
    const answer = await fetch(await consent(to[1], key))
    assert.equal(answer.status, 200, await answer.text())
    stderr.resume()
    return
  }
  throw new Error(said)
}

async function mcpRemote() {
  const transport = new StdioClientTransport({ command: process.execPath, args: [program('mcp-remote', 'dist/proxy.js'), new URL('/mcp', url).href], env, stderr: 'pipe' })
  const signedIn = signIn(transport.stderr)
  const client = new Client({ name: 'agent', version: '1' })
  await Promise.all([signedIn, client.connect(transport)])
  const { tools } = await client.listTools()
  assert.ok(tools.some((tool) => tool.name === 'get_user_context'))
  await client.close()
}

async function inspector() {
  const child = spawn(process.execPath, [program('@modelcontextprotocol/inspector', 'clients/launcher/build/index.js'), '--cli', new URL('/mcp', url).href,
    '--method', 'tools/list', '--format', 'json', '--callback-url', 'http://127.0.0.1:0/oauth/callback'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stdout.on('data', (data) => { said += data })
  const ended = new Promise((resolve) => { child.on('close', resolve) })
  await signIn(child.stderr)
  assert.equal(await ended, 0)
  assert.ok(JSON.parse(said).result.tools.some((tool) => tool.name === 'get_user_context'))
}

mcpRemote().then(inspector).catch((error) => {
  console.error(error)
  process.exitCode = 1
})
