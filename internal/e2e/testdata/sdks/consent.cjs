const assert = require('node:assert')

// consent does in a browser what a user with a key does, and returns the address that the answer goes to.
exports.consent = async (to, key) => {
  const page = await fetch(to)
  assert.equal(page.status, 200)
  const value = /name="form" value="(\w+)"/.exec(await page.text())[1]
  const answer = await fetch(to, {
    method: 'POST', redirect: 'manual', headers: { cookie: page.headers.get('set-cookie').split(';')[0] },
    body: new URLSearchParams({ form: value, key }),
  })
  assert.equal(answer.status, 303)
  return answer.headers.get('location')
}
